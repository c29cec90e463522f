package deploy

import (
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
)

// TestBusyHub_ReleaseStaysAndIsChangedLater has the hub answer 429 to everything, longer than the client tries again: to an
// agent that runs, and to the next process, which cannot list its BundleDeployments.
func TestBusyHub_ReleaseStaysAndIsChangedLater(t *testing.T) {
	t.Parallel()
	const tries = 11
	l, upset := newLab(t, "busy"), &faults.Plan{}
	l.identity.Wrap(upset.Transport)
	l.start()
	deployed := func(text string) bundle {
		return bundle{Name: "x", Files: deploytest.HelloFiles(text), Options: deploytest.InNamespace(l.Name)}
	}
	l.apply(deployed("hi"))
	l.expectStatus("x", ready)
	before, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	busy := upset.Add(faults.Rule{Fault: faults.Answer(http.StatusTooManyRequests)})
	defer busy.End()
	awaitTries := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), deploytest.Patience)
		defer cancel()
		if err := busy.Await(ctx, busy.Met()+tries+1); err != nil {
			t.Fatalf("no request used up its tries: %v", err)
		}
	}
	l.apply(deployed("later"))
	awaitTries()
	l.halt()
	watching, ended := l.run()
	awaitTries()
	select {
	case <-watching:
		t.Error("it has listed its BundleDeployments")
	case <-ended:
		t.Error("it has ended")
	default:
	}
	stays, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil || stays.ResourceVersion != before.ResourceVersion {
		t.Errorf("the object has changed: %v, %v", stays.Data, err)
	}

	busy.End()
	l.expectStatus("x", ready)
	changed, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil || changed.UID != before.UID || changed.ResourceVersion == before.ResourceVersion {
		t.Errorf("the object has not changed, or was created again: %v, %v", changed.Data, err)
	}
}
