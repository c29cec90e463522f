package bundle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A user may remove the finalizer of a Bundle and delete it. Its BundleDeployments would stay until the next start.
func TestBundleGoneWithoutItsFinalizer_LeavesNoDeployments(t *testing.T) {
	one := "BundleDeployment " + placeOf("k-000") + "/web"
	tests := map[string]struct {
		change func(*fleet.BundleDeployment)
		// returns means that there is another Bundle of the name, which the cache does not have.
		returns  bool
		requests []string
	}{
		"deployment of the Bundle: deleted":        {requests: []string{"get Bundle ws/web", "get Namespace ws", "delete " + one}},
		"another Bundle of the name exists: stays": {returns: true, requests: []string{"get Bundle ws/web"}},
		"being deleted: no request":                {change: deleted},
		"not created by the hub: stays":            {change: func(bd *fleet.BundleDeployment) { delete(bd.Labels, fleet.LabelManaged) }},
		"of another manager: stays":                {change: func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelClusterManagement] = "other" }},
		"marked to stay: stays":                    {change: func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelSetPrune] = "false" }},
		"of a shard: left to the shard":            {change: func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelShardRef] = "a" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 1)
			if err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.settle(t)
			b := hubtest.MustGet[*fleet.Bundle](t, d.hub, "ws", "web")
			d.hub.Remove(b)
			if test.returns {
				d.hub.Have(b)
			}
			if test.change != nil {
				bd := d.all(t)[0]
				test.change(bd)
				d.hub.Put(bd)
			}
			d.hub.Requests()
			if err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.requests, d.hub.Requests(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// The API server refuses a selector with such a name. The Bundle could never be deleted.
func TestBundleWithTooLongName_HasNoDeploymentsToWaitFor(t *testing.T) {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: strings.Repeat("a", 64)}}
	if live, err := new(handler).live(b); err != nil || len(live) > 0 { // a request would panic
		t.Errorf("%v, %v", live, err)
	}
}

func TestPause_KeepsFormerTargetsUntilItEnds(t *testing.T) {
	setPaused := func(paused bool) func(*testing.T, *delivery) {
		return func(t *testing.T, d *delivery) {
			t.Helper()
			c := hubtest.MustGet[*fleet.Cluster](t, d.hub, "ws", nameOf(0))
			c.Spec.Paused = paused
			d.hub.Put(c)
		}
	}
	changed := func(modifiers ...func(*fleet.Bundle)) func(*testing.T, *delivery) {
		return func(t *testing.T, d *delivery) { t.Helper(); d.change(t, modifiers...) }
	}
	tests := map[string]struct{ pause, end func(*testing.T, *delivery) }{
		"the Cluster resumes":          {setPaused(true), setPaused(false)},
		"the Bundle resumes":           {changed(pausedBundle), changed(func(b *fleet.Bundle) { b.Spec.Paused = false })},
		"the paused Bundle is deleted": {changed(pausedBundle), changed(func(b *fleet.Bundle) { b.DeletionTimestamp = &gone })},
		"the Bundle is deleted":        {setPaused(true), changed(func(b *fleet.Bundle) { b.DeletionTimestamp = &gone })},
		"the paused Cluster is gone":   {setPaused(true), func(_ *testing.T, d *delivery) { d.hub.Remove(cluster(nameOf(0))) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 2)
			pass := func() {
				t.Helper()
				if err := d.pass(t.Context()); err != nil {
					t.Fatal(err)
				}
				d.settle(t)
			}
			pass()
			test.pause(t, d)
			d.change(t, func(b *fleet.Bundle) { b.Spec.Targets = nil }, toCluster(nameOf(1)))
			pass()
			if hubtest.Get[*fleet.BundleDeployment](d.hub, placeOf(nameOf(0)), "web") == nil {
				t.Fatal("deleted during the pause")
			}
			test.end(t, d)
			pass()
			if hubtest.Get[*fleet.BundleDeployment](d.hub, placeOf(nameOf(0)), "web") != nil {
				t.Error("stays after the pause")
			}
		})
	}
}
