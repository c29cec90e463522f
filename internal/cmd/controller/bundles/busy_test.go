package bundles_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// upset has the faults that the controllers' requests meet.
var upset faults.Plan

// An API server that answers 429 makes the client try eleven times. Then the pass fails, and its queue tries again.
// Meanwhile the Bundle, its clusters and what agents report change. All writes of this workspace meet the fault.
func TestBusyServer_LosesNoChangeOfABundle(t *testing.T) {
	t.Parallel()
	const tries = 11
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"n": "1"})
	w.bundle(t, "web", everywhere, values("a", 1))
	before := w.deployment(t, "web", "one", "the first state", exists)
	w.bundleThat(t, "web", "one cluster in its status", clusters(1))

	mine := map[string]bool{w.workspace: true, w.namespaceOf("one"): true, w.namespaceOf("two"): true}
	busy := upset.Add(faults.Rule{
		Match: faults.Match{Verb: "write", If: func(r faults.Request) bool { return mine[r.Namespace] }},
		Fault: faults.Answer(http.StatusTooManyRequests),
	})
	defer busy.End()
	w.report(t, before, nil)
	for i := range 3 {
		w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"helm": map[string]any{"values": map[string]any{"a": fmt.Sprint(i)}}}})
	}
	w.cluster(t, "two", nil)
	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := busy.Await(patient, 4*tries+1); err != nil {
		t.Fatalf("no request used up its tries: %v", err)
	}
	stays := w.deployment(t, "web", "one", "the state before", exists)
	if stays.Spec.DeploymentID != before.Spec.DeploymentID {
		t.Fatal("a write met no fault")
	}

	busy.End()
	for _, cluster := range []string{"one", "two"} {
		w.report(t, w.deployment(t, "web", cluster, "the last state", hasValues(`{"a":"2"}`)), nil)
	}
	w.bundleThat(t, "web", "two ready clusters in its status", clusters(2))
	w.bundleThat(t, "web", "to be ready", isReady)
}

// clusters returns a condition that is true for a Bundle whose status counts this number of clusters.
func clusters(count int) func(*fleet.Bundle) bool {
	return func(b *fleet.Bundle) bool { return b.Status.Summary.DesiredReady == count }
}
