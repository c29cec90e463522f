package bundles_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// expectBudget wants a status to be within its budget.
func expectBudget(t *testing.T, what string, status any, budget int) {
	t.Helper()
	encoded, err := json.Marshal(status)
	if err != nil || len(encoded) > budget {
		t.Errorf("the status of the %s takes %d bytes of %d: %v", what, len(encoded), budget, err)
	}
}

// drifted is what an agent reports of ten objects that were changed much.
func drifted() map[string]any {
	var modified []any
	for i := range 10 {
		modified = append(modified, map[string]any{
			"kind": "ConfigMap", "apiVersion": "v1", "namespace": "web", "name": fmt.Sprint("settings-", i), "patch": strings.Repeat("p", 8<<10),
		})
	}
	return map[string]any{"nonModified": false, "modifiedStatus": modified}
}

func TestManyDriftedClusters_LeaveTheBundlesStatusWritable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const clusters = 30
	for i := range clusters {
		w.cluster(t, fmt.Sprintf("c-%02d", i), nil)
	}
	w.bundle(t, "web", everywhere, func(b *fleet.Bundle) {
		b.Spec.RolloutStrategy = &fleet.RolloutStrategy{}
		for i := range clusters {
			b.Spec.RolloutStrategy.Partitions = append(b.Spec.RolloutStrategy.Partitions, fleet.Partition{Name: fmt.Sprint("p-", i), ClusterName: fmt.Sprintf("c-%02d", i)})
		}
	})
	for i := range clusters {
		bd := w.deployment(t, "web", fmt.Sprintf("c-%02d", i), "its turn", func(bd *fleet.BundleDeployment) bool { return bd.Spec.DeploymentID != "" })
		w.report(t, bd, drifted())
	}
	got := w.bundleThat(t, "web", "all of them modified", func(b *fleet.Bundle) bool { return b.Status.Summary.Modified == clusters })
	expectBudget(t, "Bundle", got.Status, state.MaxBundleStatus)
	if message := got.Status.Summary.NonReadyResources[0].Message; !strings.HasSuffix(message, "more resources are not listed") {
		t.Errorf("message = %q, want what is left out", message)
	}
}

func TestHugeReportOfOneAgent_LeavesTheStatusOfOthersWritable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"env": "dev"})
	w.cluster(t, "two", map[string]string{"env": "dev"})
	w.bundle(t, "web", everywhere)
	one := w.deployment(t, "web", "one", "the first", exists)
	two := w.deployment(t, "web", "two", "the second", exists)
	w.report(t, two, nil)
	huge := strings.Repeat("界", 400_000)
	w.report(t, one, map[string]any{"ready": false, "conditions": []any{map[string]any{"type": "Monitored", "status": "False", "reason": "Error", "message": huge}}})
	got := w.bundleThat(t, "web", "both", func(b *fleet.Bundle) bool {
		return b.Status.Display.ReadyClusters == "1/2" && b.Status.Summary.NotReady == 1
	})
	expectBudget(t, "Bundle", got.Status, state.MaxBundleStatus)
	if message, _ := readyMessage(got); !strings.HasPrefix(message, "NotReady(1) [Cluster "+w.workspace+"/one: 界界") {
		t.Errorf("message = %.100q, want the beginning of what the agent says", message)
	}
	c := w.clusterThat(t, "one", "its Bundle", func(c *fleet.Cluster) bool { return c.Status.Summary.NotReady == 1 })
	expectBudget(t, "Cluster", c.Status, state.MaxClusterStatus)
	w.deployment(t, "web", "one", "its columns", func(bd *fleet.BundleDeployment) bool {
		return bd.Status.Display.State == "NotReady" && strings.HasPrefix(bd.Status.Display.Monitored, "Error: 界") && len(bd.Status.Display.Monitored) < 2000
	})

	// What an agent writes into its own Cluster is cut, and the hub goes on with it.
	w.patchStatus(t, client.Clusters, w.workspace, "two", map[string]any{"conditions": []any{
		map[string]any{"type": "Loud", "status": "True", "message": huge}, map[string]any{"type": "Ready", "status": "True", "message": "x"},
	}})
	c = w.clusterThat(t, "two", "its own status again", func(c *fleet.Cluster) bool {
		loud := conditions.Get(c.Status.Conditions, "Loud")
		return loud != nil && len(loud.Message) < 1000
	})
	expectBudget(t, "Cluster", c.Status, state.MaxClusterStatus)
}
