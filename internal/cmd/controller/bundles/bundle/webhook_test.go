package bundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rancher/wrangler/v3/pkg/generic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// labelling is an API server whose admission webhook adds a label to every BundleDeployment.
type labelling struct {
	generic.ControllerInterface[*fleet.BundleDeployment, *fleet.BundleDeploymentList]
	updates int
	frozen  bool // and keeps the spec
}

func (l *labelling) Update(bd *fleet.BundleDeployment) (*fleet.BundleDeployment, error) {
	l.updates++
	live, err := l.Get(bd.Namespace, bd.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	bd.Labels["team"] = "a"
	if l.frozen {
		bd.Spec = live.Spec
	}
	if bd.ManagedFields = nil; cmp.Equal(bd, live, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")) {
		return live, nil // no change: the version stays
	}
	return l.ControllerInterface.Update(bd)
}

func TestLabelOfAWebhook_IsRemovedOnce(t *testing.T) {
	d := newDelivery(t, bundle(everywhere), 1)
	pass := func() {
		t.Helper()
		if err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.hub.Sync()
	}
	pass()
	d.settle(t)
	server := &labelling{ControllerInterface: d.app.BundleDeployments}
	d.app.BundleDeployments = server
	bd := d.all(t)[0]
	bd.Labels["team"] = "a"
	d.hub.Put(bd)
	for range 3 {
		pass()
	}
	if server.updates != 1 {
		t.Errorf("%d writes, want 1", server.updates)
	}
	d.change(t)
	for range 3 {
		pass()
	}
	if got := d.all(t)[0].Spec; got.DeploymentID != got.StagedDeploymentID || got.DeploymentID == bd.Spec.DeploymentID {
		t.Errorf("the new version is not deployed: %s", got.DeploymentID)
	}
	if server.updates != 3 {
		t.Errorf("%d writes, want one for the new version and one for the label", server.updates-1)
	}
}

func TestSpecThatAWebhookKept_IsWrittenWhenItIsGone(t *testing.T) {
	d := newDelivery(t, bundle(everywhere), 1)
	pass := func() {
		t.Helper()
		if err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.hub.Sync()
	}
	pass()
	d.settle(t)
	before := d.all(t)[0].Spec.DeploymentID
	server := &labelling{ControllerInterface: d.app.BundleDeployments, frozen: true}
	d.app.BundleDeployments = server
	d.change(t)
	for range 3 {
		pass()
	}
	if got := d.all(t)[0].Spec.DeploymentID; got != before {
		t.Fatalf("the webhook did not keep the spec: %s", got)
	}
	server.frozen = false
	pass()
	if got := d.all(t)[0].Spec.DeploymentID; got == before {
		t.Errorf("the change was not written after the webhook was gone: %s", got)
	}
}
