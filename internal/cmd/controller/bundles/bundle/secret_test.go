package bundle

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// blaming is a BundleDeployment whose agent gives a reason why it was not deployed.
func blaming(hash, reason string) *fleet.BundleDeployment {
	return existing("one", func(bd *fleet.BundleDeployment) {
		bd.Spec.ValuesHash = hash
		if reason != "" {
			bd.Status.Conditions = []genericcondition.GenericCondition{{Type: fleet.ConditionDeployed, Status: "False", Reason: reason}}
		}
	})
}

func TestReportedInvalidValues_HaveTheSecretChecked(t *testing.T) {
	invalid := fleet.ReasonHelmValuesInvalid
	tests := map[string]struct {
		older, newer *fleet.BundleDeployment
		want         bool
	}{
		"an agent that begins to report invalid values": {blaming("h", ""), blaming("h", invalid), true},
		"one that said so before this process":          {nil, blaming("h", invalid), true},
		"an agent that still reports them":              {blaming("h", invalid), blaming("h", invalid), false},
		"one that is content again":                     {blaming("h", invalid), blaming("h", ""), false},
		"one that has another reason":                   {blaming("h", ""), blaming("h", fleet.ReasonError), false},
		"one whose values are in no Secret of ours":     {blaming("", ""), blaming("", invalid), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := &handler{memo: newMemo(), queue: queue.New(
				queue.Options{Name: "bundle", Log: slog.New(slog.DiscardHandler)},
				func(context.Context, types.NamespacedName) error { return nil },
			)}
			h.recheckValues(test.older, test.newer)
			if got := h.memo.doubts(test.newer.UID); got != test.want {
				t.Errorf("doubted: %t", got)
			}
		})
	}
}

// A Bundle whose values are not there says so when they have been missing for a while, and is not looked at before unless
// a Secret appears.
func TestValuesThatAreMissing(t *testing.T) {
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
				if outcome, _ := d.ledger.Get(web); outcome.Failure != told {
					t.Errorf("told: %q, want %q", outcome.Failure, told)
				}
			}
			appears := func(o *corev1.Secret) {
				d.onValues(queue.Change[*metav1.PartialObjectMetadata]{New: meta.AsPartialObjectMetadata(o)})
			}
			want := targetingError + errNoValues.Error()
			if there != nil {
				want = targetingError + rulesdelivery.ErrValuesHash.Error()
			}
			pass("")
			d.hub.Pass(valuesGrace - time.Second)
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
			if d.awaited.has(web) {
				t.Error("its values are still awaited")
			}
		})
	}
}

// The owner of a Secret has a UID only after the Secret was written.
func TestNewSecret_GetsItsOwner(t *testing.T) {
	const patchSecret = "patch Secret "
	newValues := func(t *testing.T) *delivery {
		return newDelivery(t, bundle(everywhere, func(b *fleet.Bundle) {
			b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": 1}}}
		}), 1)
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
