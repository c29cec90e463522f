package deploy

import (
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// atRest stops the clock of the deployer. The time is the returned number of seconds.
func (l *lab) atRest() *atomic.Int64 {
	var seconds atomic.Int64
	former := l.options
	l.options = func(options *Options) {
		former(options)
		options.Clock = func() time.Time { return deploytest.Noon().Add(time.Duration(seconds.Load()) * time.Second) }
	}
	return &seconds
}

// expectKnown waits until a deployer has the wanted state of a BundleDeployment.
func (l *lab) expectKnown(d *deployer, bd *fleet.BundleDeployment) {
	l.t.Helper()
	l.eventually(func() string {
		if cached := d.hub.Cached(bd.Name); cached == nil || cached.Generation < bd.Generation {
			return "the state is not known"
		}
		return ""
	})
}

func (l *lab) reconcile(d *deployer) {
	l.t.Helper()
	d.slots.Take()
	defer d.slots.Free()
	if err := d.reconcile(l.t.Context(), "x"); err != nil {
		l.t.Fatal(err)
	}
}

// Each reconcile here is what an event of an object starts.
func TestFailedDeployment_IsNotRetriedByObjectEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t, "retry-events")
	other, tries := l.Name+"-other", 0
	l.options = func(options *Options) { options.OnDeploy = func(outcome.Outcome, time.Duration) { tries++ } }
	seconds := l.atRest()
	d := l.byHand()
	wanted := bundle{Name: "x", Files: hooks(hookOf("first", other, "pre-install")), Options: deploytest.InNamespace(l.Name)}
	l.expectKnown(d, l.apply(wanted))
	for range 3 {
		l.reconcile(d)
	}
	l.expectStatus("x", says(conditions.Deployed, "failed pre-install: "))
	if tries != 1 {
		t.Errorf("%d tries during the pause", tries)
	}
	seconds.Add(1)
	l.reconcile(d)
	if tries != 2 {
		t.Errorf("%d tries after the pause", tries)
	}
	l.namespace(other)
	wanted.Change = func(bd *fleet.BundleDeployment) { bd.Annotations = map[string]string{"example.com/try": "now"} }
	l.apply(wanted)
	l.eventually(func() string { // a change of the BundleDeployment ends the pause
		l.reconcile(d)
		return ready(l.get("x"))
	})
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
}

func TestFormerReleaseCannotBeRemoved_IsNotRetriedByObjectEvents(t *testing.T) {
	t.Parallel()
	l, requests := newLab(t, "retry-stale"), &faults.Plan{}
	l.local = rest.CopyConfig(l.local)
	l.local.Wrap(requests.Transport)
	tries := requests.Add(faults.Rule{Match: faults.Match{Verb: "create", Resource: "configmaps", Namespace: l.Name + "-missing"}, Fault: faults.Before(func(faults.Request) {})})
	seconds := l.atRest()
	d := l.byHand()
	wanted := bundle{Name: "x", Files: hooks(hookOf("last", l.Name+"-missing", "pre-delete")), Options: deploytest.InNamespace(l.Name)}
	for _, name := range []string{"a", "b"} {
		wanted.Options.Helm.ReleaseName = name
		l.expectKnown(d, l.apply(wanted))
		l.reconcile(d)
	}
	l.expectStatus("x", says(conditions.Deployed, l.Name+"-missing"))
	first := tries.Met()
	l.edit("configmaps", "b", `{"data":{"greeting":"salut"}}`)
	l.eventually(func() string { // objects are still watched
		l.reconcile(d)
		return modified("configmap.v1 " + l.Name + `/b modified {"data":{"greeting":"hi"}}`)(l.get("x"))
	})
	if got := tries.Met(); first == 0 || got != first {
		t.Errorf("the hook ran %d times, then %d times during the pause", first, got)
	}
	seconds.Add(1)
	l.reconcile(d)
	if tries.Met() == first {
		t.Error("it is not tried again after the pause")
	}
}
