package values

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const ownValues = `{"f:data":{".":{},"f:values":{},"f:stagedValues":{}}}`

func managing(manager, fields string) metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate}
	if fields != "" {
		entry.FieldsV1 = metav1.NewFieldsV1(fields)
	}
	return entry
}

func TestEditedByOthers(t *testing.T) {
	const values, more = ownValues, `{"f:data":{"f:more":{}}}`
	type entries = []metav1.ManagedFieldsEntry
	tests := map[string]struct {
		entries entries
		want    bool
	}{
		"written by this process":                 {entries{managing("own", values)}, false},
		"written by Rancher Fleet":                {entries{managing("fleetcontroller", values)}, false},
		"labels written by another client":        {entries{managing("own", values), managing("kubectl", `{"f:metadata":{"f:labels":{"f:a":{}}}}`)}, false},
		"values written by another client":        {entries{managing("own", `{"f:type":{}}`), managing("kubectl", values)}, true},
		"a key added by another client":           {entries{managing("own", values), managing("kubectl", more)}, true},
		"the values removed by another client":    {entries{managing("own", `{"f:data":{".":{},"f:stagedValues":{}}}`)}, true},
		"without managed fields":                  {nil, true},
		"managed fields that cannot be read":      {entries{managing("own", values), managing("kubectl", `{`)}, false},
		"an entry without fields beside one with": {entries{managing("kubectl", ""), managing("own", values)}, false},
		"no data fields at all":                   {entries{managing("own", `{"f:data":{}}`)}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := editedByOthers(test.entries, "own"); got != test.want {
				t.Errorf("edited: %t", got)
			}
		})
	}
}

func TestManagerOf(t *testing.T) {
	for agent, want := range map[string]string{"fleetcontroller/v1 (linux)": "fleetcontroller", "me": "me"} {
		if got := managerOf(&rest.Config{UserAgent: agent}); got != want {
			t.Errorf("%q: %q", agent, got)
		}
	}
	if managerOf(&rest.Config{}) == "" {
		t.Error("no manager without a user agent")
	}
}

func TestSecretsThatWereDamagedBefore_AreComparedAtStart(t *testing.T) {
	noValues := plain("none")
	g := &guard{own: "own"}
	var secrets []any
	for _, one := range []struct {
		cluster, manager string
		owned            bool
	}{{"fine", "own", true}, {"edited", "kubectl-edit", true}, {"unowned", "own", false}, {"abandoned", "own", false}, {"unused", "own", true}} {
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "c-" + one.cluster, Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{managing(one.manager, ownValues)},
		}}
		if one.owned {
			secret.OwnerReferences = []metav1.OwnerReference{{UID: "u"}}
		}
		secrets = append(secrets, g.strip(secret))
	}
	want := []types.NamespacedName{{Namespace: "c-edited", Name: "web"}, {Namespace: "c-unowned", Name: "web"}, {Namespace: "c-deleted", Name: "web"}}
	deployments := []*fleet.BundleDeployment{valued("fine"), valued("edited"), valued("unowned"), valued("deleted"), noValues, plain("unused")}
	broken, abandoned := damaged(secrets, deployments)
	if diff := cmp.Diff(want, broken); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]types.NamespacedName{{Namespace: "c-abandoned", Name: "web"}, {Namespace: "c-unused", Name: "web"}}, abandoned); diff != "" {
		t.Errorf("abandoned (-want +got):\n%s", diff)
	}
}

// valued returns a BundleDeployment with values.
func valued(cluster string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c-" + cluster, Name: "web", UID: types.UID("u-" + cluster)},
		Spec:       fleet.BundleDeploymentSpec{ValuesHash: "h"},
	}
}

// plain returns a BundleDeployment that refers to no Secret.
func plain(cluster string) *fleet.BundleDeployment {
	bd := valued(cluster)
	bd.Spec.ValuesHash = ""
	return bd
}

// unownedSecret returns the values Secret of cluster one without an owner.
func unownedSecret(modifiers ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "c-one", Name: "web", UID: "s"}, Type: fleet.SecretTypeBundleDeployment}
	for _, modify := range modifiers {
		modify(secret)
	}
	return secret
}

// An earlier process may have ended between creating the Secret and its BundleDeployment.
func TestAbandonedSecret_IsDeleted(t *testing.T) {
	const readSecret, readOwner, deleteSecret = "get Secret c-one/web", "get BundleDeployment c-one/web", "delete Secret c-one/web"
	tests := map[string]struct {
		server   []hubtest.Object
		fail     string
		writing  types.UID
		before   func(*hubtest.Hub)
		requests []string
		deleted  bool
	}{
		"without a BundleDeployment: it is deleted": {
			server: []hubtest.Object{unownedSecret()}, requests: []string{readSecret, readOwner, deleteSecret}, deleted: true,
		},
		"already deleted: nothing is done": {requests: []string{readSecret}, deleted: true},
		"of another type: it stays": {
			server:   []hubtest.Object{unownedSecret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })},
			requests: []string{readSecret},
		},
		"with an owner by now: left to the garbage collector": {
			server: []hubtest.Object{unownedSecret(func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{{UID: "u"}}
			})},
			requests: []string{readSecret, readOwner},
		},
		"its BundleDeployment has the values itself: it is deleted": {
			server: []hubtest.Object{plain("one"), unownedSecret(func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{{UID: "u-one"}}
			})},
			requests: []string{readSecret, readOwner, deleteSecret}, deleted: true,
		},
		"its BundleDeployment is about to refer to it: it stays": {
			server: []hubtest.Object{plain("one"), unownedSecret()}, writing: "u-one", requests: []string{readSecret, readOwner},
		},
		"its BundleDeployment is not in the cache: it stays": {
			server: []hubtest.Object{valued("one"), unownedSecret()}, requests: []string{readSecret, readOwner},
		},
		"written again in the meantime: it stays": {
			server: []hubtest.Object{unownedSecret()}, requests: []string{readSecret, readOwner, deleteSecret},
			before: func(hub *hubtest.Hub) { hub.Have(unownedSecret()) },
		},
		"the Secret cannot be read: tried again": {
			server: []hubtest.Object{unownedSecret()}, fail: readSecret, requests: []string{readSecret},
		},
		"the BundleDeployment cannot be read: it stays, tried again": {
			server: []hubtest.Object{unownedSecret()}, fail: readOwner, requests: []string{readSecret, readOwner},
		},
		"it cannot be deleted: tried again": {
			server: []hubtest.Object{unownedSecret()}, fail: deleteSecret, requests: []string{readSecret, readOwner, deleteSecret},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			hub.Have(test.server...)
			if test.fail != "" {
				hub.Fail(test.fail, errors.New("connection refused"))
			}
			if test.before != nil {
				hub.Before(deleteSecret, func() { test.before(hub) })
			}
			store := New(hub.App)
			if test.writing != "" {
				store.MarkUnverified(test.writing)
			}
			err := store.deleteAbandoned(t.Context(), types.NamespacedName{Namespace: "c-one", Name: "web"})
			if (err != nil) != (test.fail != "") {
				t.Errorf("error = %v", err)
			}
			if diff := cmp.Diff(test.requests, hub.Requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if deleted := hubtest.Get[*corev1.Secret](hub, "c-one", "web") == nil; deleted != test.deleted {
				t.Errorf("deleted: %v, want %v", deleted, test.deleted)
			}
		})
	}
}

func TestSetOwner_AdoptsNoSecretOfAnotherType(t *testing.T) {
	hub := hubtest.New(t)
	theirs := unownedSecret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	hub.Have(theirs)
	if err := New(hub.App).SetOwner(t.Context(), valued("one")); err != nil {
		t.Errorf("error %v, want none, as without a Secret", err)
	}
	if owners := hubtest.MustGet[*corev1.Secret](t, hub, "c-one", "web").OwnerReferences; len(owners) > 0 {
		t.Errorf("owners %v", owners)
	}
}

// Its owner may not have been set before it was deleted.
func TestSecretOfDeletedBundleDeployment_IsCheckedIfDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checked []string
		s := &Store{unverified: map[types.UID]bool{}}
		s.abandoned = queue.New(queue.Options{Workers: 1, Log: slog.New(slog.DiscardHandler)}, func(_ context.Context, key types.NamespacedName) error {
			checked = append(checked, key.String())
			return nil
		})
		ctx, end := context.WithCancel(t.Context())
		go s.abandoned.Run(ctx)
		s.MarkUnverified("u-one")
		s.Gone(valued("one"))
		s.Gone(valued("two"))
		<-time.After(2 * abandonedDelay) // in the time of the bubble
		end()
		synctest.Wait()
		if diff := cmp.Diff([]string{"c-one/web"}, checked); diff != "" {
			t.Errorf("checked (-want +got):\n%s", diff)
		}
		if !s.Holds("u-one") {
			t.Error("it is still unverified")
		}
	})
}
