package bundle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/values"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/reconcile"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A reconcile is scheduled only for the end of the grace period, or when a Secret appears.
func TestMissingValues_AreReportedAfterAWhile(t *testing.T) {
	data := map[string][]byte{"values.yaml": []byte(`{"a":1}`)}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web"}, Type: fleet.SecretTypeBundleValues, Data: data}
	stale := secret.DeepCopy()
	stale.Data = nil
	for name, there := range map[string]*corev1.Secret{"missing": nil, "of another hash": stale} {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere, func(b *fleet.Bundle) { b.Spec.ValuesHash = rulesdelivery.BundleValuesHash(data) }), 1)
			if there != nil {
				d.hub.Put(there)
			}
			pass := func(told string) {
				t.Helper()
				if err := d.pass(t.Context()); err != nil {
					t.Fatal(err)
				}
				if outcome, _ := d.outcomes.Get(web); outcome.Failure != told {
					t.Errorf("told: %q, want %q", outcome.Failure, told)
				}
			}
			appears := func(o *corev1.Secret) {
				d.onValues(reconcile.Change[*metav1.PartialObjectMetadata]{New: meta.AsPartialObjectMetadata(o)})
			}
			want := selection.TargetingError + values.ErrMissing.Error()
			if there != nil {
				want = selection.TargetingError + rulesdelivery.ErrValuesHash.Error()
			}
			pass("")
			d.hub.Pass(values.Grace - time.Second)
			pass("")
			if d.queue.Behind() {
				t.Error("it is looked at again though nothing has changed")
			}
			d.hub.Pass(time.Second)
			pass(want)
			appears(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "other"}})
			if d.queue.Behind() {
				t.Error("another Secret wakes it")
			}
			d.hub.Put(secret)
			appears(secret)
			if !d.queue.Behind() {
				t.Error("its Secret does not wake it")
			}
			pass("")
			if d.source.Awaits(web) {
				t.Error("its values are still awaited")
			}
		})
	}
}

// The owner of a Secret has a UID only after the Secret was written.
func TestNewSecret_GetsItsOwner(t *testing.T) {
	const patchSecret = "patch Secret "
	newValues := func(t *testing.T) *delivery {
		d := newDelivery(t, bundle(everywhere, func(b *fleet.Bundle) {
			b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": 1}}}
		}), 1)
		d.app.Config.Set(config.Config{PlainValuesInSecrets: true})
		return d
	}
	ownerOf := func(t *testing.T, d *delivery) []metav1.OwnerReference {
		t.Helper()
		return hubtest.MustGet[*corev1.Secret](t, d.hub, placeOf(nameOf(0)), "web").OwnerReferences
	}
	t.Run("in one request", func(t *testing.T) {
		d := newValues(t)
		if err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		bd := d.all(t)[0]
		if owners := ownerOf(t, d); len(owners) != 1 || owners[0].UID != bd.UID {
			t.Errorf("owners: %v, want %s", owners, bd.UID)
		}
		d.hub.Sync()
		d.hub.Requests()
		if err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		hubtest.ExpectRequests(t, d.hub)
	})
	t.Run("after a failure: in the next pass", func(t *testing.T) {
		d := newValues(t)
		request := patchSecret + placeOf(nameOf(0)) + "/web"
		d.fail(errDown, request)
		if err := d.pass(t.Context()); err == nil {
			t.Fatal("the failure is not retried")
		}
		d.fail(nil, request)
		d.hub.Sync()
		if err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if owners := ownerOf(t, d); len(owners) != 1 || owners[0].UID != d.all(t)[0].UID {
			t.Errorf("owners: %v", owners)
		}
	})
}

// A change of the setting moves values to Secrets at once.
func TestPlainValues_MoveWithTheSetting(t *testing.T) {
	d := newDelivery(t, bundle(everywhere, func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": 1}}}
	}), 1)
	pass := func(wanted ...string) *fleet.BundleDeployment {
		t.Helper()
		d.hub.Sync()
		d.hub.Requests()
		if err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		hubtest.ExpectRequests(t, d.hub, wanted...)
		return d.all(t)[0]
	}
	place := placeOf(nameOf(0)) + "/web"
	if err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain := pass()
	if plain.Spec.ValuesHash != "" || plain.Spec.Options.Helm.Values.Data["a"] != int64(1) {
		t.Errorf("plain: %+v", plain.Spec)
	}
	before := d.app.Config.Get()
	d.app.Config.Set(config.Config{PlainValuesInSecrets: true})
	d.onConfig(before, d.app.Config.Get())
	if !d.queue.Behind() {
		t.Error("the Bundle is not reconciled")
	}
	hidden := pass("create Secret "+place, "update BundleDeployment "+place)
	if hidden.Spec.ValuesHash == "" || hidden.Spec.Options.Helm.Values != nil || hidden.Spec.DeploymentID != plain.Spec.DeploymentID {
		t.Errorf("in a Secret: %+v", hidden.Spec)
	}
	d.app.Config.Set(before)
	pass() // until the next deployment
}
