package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/outcomes"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// there is the namespace of Cluster ws/one.
var there = names.ClusterNamespace("ws", "one")

// put gives a hub a BundleDeployment with its Cluster, and a Bundle that asks for the same copies.
func put(hub *hubtest.Hub, bd *fleet.BundleDeployment) {
	hub.Put(cluster("ws", "one"))
	hub.Put(bundle("web", bd.Spec.Options.DownstreamResources...))
	hub.Put(bd)
}

func cluster(workspace, name string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name}}
}

func bundle(name string, resources ...fleet.DownstreamResource) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}}
	b.Spec.DownstreamResources = resources
	b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	return b
}

// everything is that a Bundle asks for all that its BundleDeployment does.
func everything(bd *fleet.BundleDeployment) map[original]bool {
	asked := map[original]bool{}
	for _, one := range originalsOf(bd) {
		asked[one] = true
	}
	return asked
}

func deployment(resources ...fleet.DownstreamResource) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: there, Name: "web", UID: "u-web", Labels: map[string]string{
			fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "ws", fleet.LabelCluster: "one", fleet.LabelClusterNamespace: "ws",
		},
	}}
	bd.Spec.Options.DownstreamResources = resources
	return bd
}

func secretOf(namespace, name, value string, modifiers ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "7"}, Type: "t", Data: map[string][]byte{"k": []byte(value)}}
	for _, modify := range modifiers {
		modify(s)
	}
	return s
}

func configMapOf(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "7"},
		Data:       map[string]string{"k": value}, BinaryData: map[string][]byte{"b": {1}},
	}
}

func ownedBy(uid string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "BundleDeployment", Name: "web", UID: types.UID(uid)})
	}
}

// fromWorkspace names the workspace of the original.
func fromWorkspace(s *corev1.Secret) {
	s.Annotations = map[string]string{annotation.CopiedFrom: "ws"}
}

func ofType(t corev1.SecretType) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Type = t }
}

func handlerWith(t *testing.T, objects ...runtime.Object) *handler {
	t.Helper()
	hub := hubtest.New(t)
	hub.App.Kube = fake.NewClientset(objects...)
	h := &handler{app: hub.App, originals: newOriginals(), copied: newCopyRecords(), refusals: newRefusals()}
	h.queue = h.newQueue(h.handle)
	return h
}

func TestCopyAll(t *testing.T) {
	creds, settings := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}, fleet.DownstreamResource{Kind: "ConfigMap", Name: "settings"}
	withValues := deployment(fleet.DownstreamResource{Kind: "secret", Name: "web"})
	withValues.Spec.ValuesHash = "h"
	tests := map[string]struct {
		bd      *fleet.BundleDeployment
		there   []runtime.Object
		changed bool
		trouble string
		secret  *corev1.Secret // the copy, if there should be one
	}{
		"no resources": {bd: deployment()},
		"new Secret": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1")}, changed: true, secret: secretOf(there, "creds", "1", ownedBy("u-web"), fromWorkspace),
		},
		"existing copy, unchanged": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1"), secretOf(there, "creds", "1", ownedBy("u-web"))},
			secret: secretOf(there, "creds", "1", ownedBy("u-web")),
		},
		"a copy shared with another owner: no change for the agent": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1"), secretOf(there, "creds", "1", ownedBy("u-db"))},
			secret: secretOf(there, "creds", "1", ownedBy("u-db"), ownedBy("u-web"), fromWorkspace),
		},
		"other data, and another type, which stays": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "2", ofType("new")), secretOf(there, "creds", "1", ownedBy("u-web"))},
			changed: true, secret: secretOf(there, "creds", "2", ownedBy("u-web"), fromWorkspace),
		},
		"one original is missing, the other is copied": {
			bd: deployment(settings, creds), there: []runtime.Object{secretOf("ws", "creds", "1")}, changed: true,
			trouble: "downstreamResources[0]: ConfigMap settings: it does not exist in the Bundle's namespace", secret: secretOf(there, "creds", "1", ownedBy("u-web"), fromWorkspace),
		},
		"another kind": {
			bd:      deployment(fleet.DownstreamResource{Kind: "Pod", Name: "p"}),
			trouble: "downstreamResources[0]: Pod p: kind must be Secret or ConfigMap, and name must be set",
		},
		"no name": {
			bd:      deployment(fleet.DownstreamResource{Kind: "Secret"}),
			trouble: "downstreamResources[0]: Secret : kind must be Secret or ConfigMap, and name must be set",
		},
		"the name of the values": {
			bd: withValues, there: []runtime.Object{secretOf("ws", "web", "1")},
			trouble: "downstreamResources[0]: secret web: " + errTaken.Error(),
		},
		"the name of another Bundle's values": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1"), secretOf(there, "creds", "v", ofType(fleet.SecretTypeBundleDeployment))},
			trouble: "downstreamResources[0]: Secret creds: " + errTaken.Error(), secret: secretOf(there, "creds", "v", ofType(fleet.SecretTypeBundleDeployment)),
		},
		"a copy that names another workspace": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1"), secretOf(there, "creds", "1", ownedBy("u-web"), func(s *corev1.Secret) {
				s.Annotations = map[string]string{annotation.CopiedFrom: "other"}
			})}, changed: true, secret: secretOf(there, "creds", "1", ownedBy("u-web"), fromWorkspace),
		},
		"a ConfigMap that changed": {
			bd: deployment(settings), there: []runtime.Object{configMapOf("ws", "settings", "2"), configMapOwnedBy("settings", "u-db")}, changed: true,
		},
		"a ConfigMap of that name is not a copy: it stays": {
			bd: deployment(settings), there: []runtime.Object{configMapOf("ws", "settings", "2"), configMapOf(there, "settings", "1")},
			trouble: "downstreamResources[0]: ConfigMap settings: " + errOccupied.Error(),
		},
		"a Secret of that name is not a copy: it stays": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "2"), secretOf(there, "creds", "1")},
			trouble: "downstreamResources[0]: Secret creds: " + errOccupied.Error(), secret: secretOf(there, "creds", "1"),
		},
		"a Secret of that name is the token of an account: it stays": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "2"), secretOf(there, "creds", "2", ofType(corev1.SecretTypeServiceAccountToken))},
			trouble: "downstreamResources[0]: Secret creds: " + errOccupied.Error(), secret: secretOf(there, "creds", "2", ofType(corev1.SecretTypeServiceAccountToken)),
		},
		"a Secret of that name has the same data, as after a move to another hub: it is a copy": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1"), secretOf(there, "creds", "1")}, secret: secretOf(there, "creds", "1", ownedBy("u-web"), fromWorkspace),
		},
		"the token of an account is never copied": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1", ofType(corev1.SecretTypeServiceAccountToken))},
			trouble: "downstreamResources[0]: Secret creds: " + errToken.Error(),
		},
		"the values of a token are never copied": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1", ofType(protocol.SecretTypeValues))},
			trouble: "downstreamResources[0]: Secret creds: " + errOwn.Error(),
		},
		"the values of a Bundle are never copied": {
			bd: deployment(creds), there: []runtime.Object{secretOf("ws", "creds", "1", ofType(fleet.SecretTypeBundleValues))},
			trouble: "downstreamResources[0]: Secret creds: " + errOwn.Error(),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := handlerWith(t, test.there...)
			trouble, err := h.copyAll(t.Context(), test.bd, everything(test.bd))
			changed := h.copied.takeChanged(test.bd.UID)
			if err != nil || changed != test.changed || trouble != test.trouble {
				t.Errorf("changed %v, trouble %q, %v; want %v, %q", changed, trouble, err, test.changed, test.trouble)
			}
			if _, err := h.copyAll(t.Context(), test.bd, everything(test.bd)); err != nil || h.copied.takeChanged(test.bd.UID) {
				t.Errorf("the second time it changes something: %v", err)
			}
			got, err := h.app.Kube.CoreV1().Secrets(there).Get(t.Context(), "creds", metav1.GetOptions{})
			if test.secret == nil {
				if err == nil {
					t.Errorf("there is a copy %+v", got)
				}
				return
			}
			got.ResourceVersion, got.ManagedFields, got.TypeMeta, test.secret.ResourceVersion = "", nil, metav1.TypeMeta{}, ""
			if diff := cmp.Diff(test.secret, got); err != nil || diff != "" {
				t.Errorf("the copy (-want +got), %v:\n%s", err, diff)
			}
		})
	}
}

// The agent and the hub find these by name or by type. A tenant must not decide what they contain.
func TestSecretsThatFleetReads_AreNeverCopied(t *testing.T) {
	for name, secret := range map[string]*corev1.Secret{
		"identity of an agent":       secretOf("ws", names.Agent, "1", ofType(corev1.SecretTypeOpaque)),
		"import identity":            secretOf("ws", names.AgentBootstrap, "1", ofType(corev1.SecretTypeOpaque)),
		"name of the recovery data":  secretOf("ws", names.Recovery, "1", ofType(corev1.SecretTypeOpaque)),
		"type of the recovery data":  secretOf("ws", "creds", "1", ofType(protocol.SecretTypeRecovery)),
		"credential for a request":   secretOf("ws", names.CredentialSecret("id", "random"), "1", ofType(protocol.SecretTypeCredential)),
		"key of the hub":             secretOf("ws", names.HubKey, "1", ofType(protocol.SecretTypeHubKey)),
		"values of a Bundle":         secretOf("ws", "web", "1", ofType(fleet.SecretTypeBundleValues)),
		"values for an agent":        secretOf("ws", "db", "1", ofType(fleet.SecretTypeBundleDeployment)),
		"values of an import token":  secretOf("ws", "token", "1", ofType(protocol.SecretTypeValues)),
		"token of a request account": secretOf("ws", "request-1-token", "1", ofType(corev1.SecretTypeServiceAccountToken)),
	} {
		t.Run(name, func(t *testing.T) {
			h := handlerWith(t, secret)
			bd := deployment(fleet.DownstreamResource{Kind: "Secret", Name: secret.Name})
			trouble, err := h.copyAll(t.Context(), bd, everything(bd))
			if err != nil || !strings.Contains(trouble, "never copied") {
				t.Errorf("trouble %q, %v", trouble, err)
			}
			if got, err := h.app.Kube.CoreV1().Secrets(there).Get(t.Context(), secret.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("there is a copy %+v, %v", got, err)
			}
		})
	}
}

func TestCopiesOfTwoWorkspaces_AreNotShared(t *testing.T) {
	creds, settings := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}, fleet.DownstreamResource{Kind: "ConfigMap", Name: "settings"}
	own, other := deployment(creds, settings), deployment(creds, settings)
	other.Name, other.UID = "db", "u-db"
	other.Labels[fleet.LabelBundleName], other.Labels[fleet.LabelBundleNamespace] = "db", "ws2"
	first := metav1.OwnerReference{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "BundleDeployment", Name: "db", UID: "u-db"}
	second := metav1.OwnerReference{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "BundleDeployment", Name: "web", UID: "u-web"}
	trouble := "downstreamResources[0]: Secret creds: " + errAnothers.Error()
	for name, test := range map[string]struct {
		owners                      []metav1.OwnerReference
		data, trouble, want, config string
	}{
		"of the other one":                           {[]metav1.OwnerReference{first}, "1", trouble, "1", "1"},
		"of the other one, with equal data":          {[]metav1.OwnerReference{first}, "2", trouble, "2", "2"},
		"shared by an earlier release: of the first": {[]metav1.OwnerReference{first, second}, "1", trouble, "1", "1"},
		"the same, this one is the first":            {[]metav1.OwnerReference{second, first}, "1", "", "2", "2"},
		"the other BundleDeployment is gone":         {[]metav1.OwnerReference{{APIVersion: first.APIVersion, Kind: first.Kind, Name: "gone", UID: "u"}}, "1", "", "2", "2"},
		"its name belongs to another one by now":     {[]metav1.OwnerReference{{APIVersion: first.APIVersion, Kind: first.Kind, Name: "db", UID: "u"}}, "1", "", "2", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			secret, configMap := secretOf(there, "creds", test.data), configMapOf(there, "settings", test.data)
			secret.OwnerReferences, configMap.OwnerReferences = test.owners, test.owners
			hub := hubtest.New(t)
			h := handlerWith(t, secretOf("ws", "creds", "2"), configMapOf("ws", "settings", "2"), secret, configMap)
			hub.App.Kube, h.app = h.app.Kube, hub.App
			put(hub, own)
			put(hub, other)
			got, err := h.copyAll(t.Context(), own, everything(own))
			if err != nil || got != test.trouble {
				t.Errorf("trouble %q, %v: want %q", got, err, test.trouble)
			}
			after, err := h.app.Kube.CoreV1().Secrets(there).Get(t.Context(), "creds", metav1.GetOptions{})
			if err != nil || string(after.Data["k"]) != test.want {
				t.Errorf("the Secret has %q, %v: want %q", after.Data["k"], err, test.want)
			}
			config, err := h.app.Kube.CoreV1().ConfigMaps(there).Get(t.Context(), "settings", metav1.GetOptions{})
			if err != nil || config.Data["k"] != test.config {
				t.Errorf("the ConfigMap has %q, %v: want %q", config.Data["k"], err, test.config)
			}
		})
	}
}

func TestCopyThatOthersChange_IsRestored(t *testing.T) {
	creds := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}
	for name, change := range map[string]func(*fake.Clientset) error{
		"deleted": func(kube *fake.Clientset) error {
			return kube.CoreV1().Secrets(there).Delete(t.Context(), "creds", metav1.DeleteOptions{})
		},
		"edited": func(kube *fake.Clientset) error {
			_, err := kube.CoreV1().Secrets(there).Update(t.Context(), secretOf(there, "creds", "x", ownedBy("u-web")), metav1.UpdateOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset(secretOf("ws", "creds", "1"), secretOf(there, "creds", "1", ownedBy("u-web")))
			hub := hubtest.New(t)
			h := handlerWith(t)
			hub.App.Kube, h.app = kube, hub.App
			bd := deployment(creds)
			put(hub, bd)
			copied := original{kindSecret, types.NamespacedName{Namespace: there, Name: "creds"}}
			if trouble, err := h.copyAll(t.Context(), bd, everything(bd)); trouble != "" || err != nil {
				t.Fatalf("%q, %v", trouble, err)
			}
			if h.onObject(copied, "7"); h.queue.Behind() {
				t.Error("the hub's own write is a change")
			}
			if err := change(kube); err != nil {
				t.Fatal(err)
			}
			if h.onObject(copied, ""); !h.queue.Behind() {
				t.Error("the BundleDeployment is not enqueued")
			}
			trouble, err := h.copyAll(t.Context(), bd, everything(bd))
			if trouble != "" || err != nil || !h.copied.takeChanged("u-web") {
				t.Fatalf("%q, %v, or the agent is not notified", trouble, err)
			}
			after, err := kube.CoreV1().Secrets(there).Get(t.Context(), "creds", metav1.GetOptions{})
			if err != nil || string(after.Data["k"]) != "1" {
				t.Errorf("the copy has %q, %v", after.Data["k"], err)
			}
		})
	}
}

func TestConfigMap_IsCopiedCompletely(t *testing.T) {
	h := handlerWith(t, configMapOf("ws", "settings", "1"))
	settings := deployment(fleet.DownstreamResource{Kind: "CONFIGMAP", Name: "settings"})
	if trouble, err := h.copyAll(t.Context(), settings, everything(settings)); trouble != "" || err != nil || !h.copied.takeChanged("u-web") {
		t.Fatalf("%q, %v, or no change", trouble, err)
	}
	got, err := h.app.Kube.CoreV1().ConfigMaps(there).Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := configMapOf(there, "settings", "1")
	if diff := cmp.Diff([]any{want.Data, want.BinaryData}, []any{got.Data, got.BinaryData}); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
}

// All clusters share what was read. A change is read again.
func TestOriginals_AreReadOnce(t *testing.T) {
	o := newOriginals()
	key := original{kindSecret, types.NamespacedName{Namespace: "ws", Name: "creds"}}
	if known, _ := o.get(key); known != nil {
		t.Error("something is known of what was never read")
	}
	_, changes := o.get(key)
	o.put(key, &payload{version: "1"}, changes)
	if known, _ := o.get(key); known == nil || known.version != "1" {
		t.Errorf("known = %+v", known)
	}
	_, changes = o.get(key)
	o.forget(key)
	o.put(key, &payload{version: "1"}, changes) // was read before the change
	if known, _ := o.get(key); known != nil {
		t.Error("what was read before a change counts")
	}
	for i := range 2 * mostOriginals {
		_, changes := o.get(key)
		o.put(original{kindSecret, types.NamespacedName{Name: string(rune('a' + i))}}, &payload{}, changes)
	}
	if len(o.known) > mostOriginals {
		t.Errorf("%d are kept", len(o.known))
	}
}

// If the notification of an agent fails, it is retried, although there is nothing to copy then.
func TestFailedNotification_IsRetried(t *testing.T) {
	notify := "patch BundleDeployment " + there + "/web"
	hub := hubtest.New(t)
	h := handlerWith(t, secretOf("ws", "creds", "2"), secretOf(there, "creds", "1", ownedBy("u-web")))
	hub.App.Kube, h.app = h.app.Kube, hub.App
	h.report = func(*fleet.BundleDeployment, string) {}
	put(hub, deployment(fleet.DownstreamResource{Kind: "Secret", Name: "creds"}))
	generation := func() int64 {
		return hubtest.MustGet[*fleet.BundleDeployment](t, hub, there, "web").Spec.DownstreamResourcesGeneration
	}
	down := errors.New("connection refused")
	hub.Fail(notify, down)
	key := types.NamespacedName{Namespace: there, Name: "web"}
	if err := h.handle(t.Context(), key); !errors.Is(err, down) || generation() != 0 {
		t.Fatalf("%v, and generation %d", err, generation())
	}
	hub.Fail(notify, nil)
	for range 2 { // and only once
		if err := h.handle(t.Context(), key); err != nil || generation() != 1 {
			t.Fatalf("%v, and generation %d", err, generation())
		}
		hub.Sync()
	}
}

func TestBundleDeploymentDeletedWhileHandled_IsForgotten(t *testing.T) {
	for name, originals := range map[string][]hubtest.Object{"its original is missing": nil, "its original is copied": {secretOf("ws", "creds", "1")}} {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			troubles, bd := outcomes.New(), deployment(fleet.DownstreamResource{Kind: "Secret", Name: "creds"})
			h := &handler{app: hub.App, originals: newOriginals(), copied: newCopyRecords(), refusals: newRefusals(), report: func(bd *fleet.BundleDeployment, trouble string) {
				troubles.SetTrouble(reconcile.KeyOf(bd), index.BundleOf(bd), trouble)
			}}
			hub.Have(originals...)
			put(hub, bd)
			deleted := false
			hub.Before("get Secret ws/creds", func() {
				hub.Remove(bd)
				h.onDeployment(reconcile.Change[*fleet.BundleDeployment]{Old: bd})
				deleted = true
			})
			err := h.handle(t.Context(), reconcile.KeyOf(bd))
			if !deleted {
				t.Fatalf("the original was not read: %v", err)
			}
			expectForgotten(t, h, troubles, bd)
		})
	}
}

func TestRecreatedBundleDeployment_ItsPredecessorIsForgotten(t *testing.T) {
	h := handlerWith(t)
	troubles, older, newer := outcomes.New(), deployment(), deployment()
	h.report = func(bd *fleet.BundleDeployment, trouble string) {
		troubles.SetTrouble(reconcile.KeyOf(bd), index.BundleOf(bd), trouble)
	}
	h.report(older, "its original is missing")
	h.refusals.add(reconcile.KeyOf(older), claimOf(older))
	h.copied.setChanged(older.UID)
	newer.UID = "u-new"
	h.onDeployment(reconcile.Change[*fleet.BundleDeployment]{Old: older, New: newer})
	expectForgotten(t, h, troubles, older)
}

// expectForgotten fails if anything is known of a BundleDeployment, which was the only one.
func expectForgotten(t *testing.T, h *handler, troubles *outcomes.Store, bd *fleet.BundleDeployment) {
	t.Helper()
	if trouble := troubles.Trouble(reconcile.KeyOf(bd)); trouble != "" {
		t.Errorf("the next BundleDeployment of this name has the trouble %q", trouble)
	}
	if diff := cmp.Diff([]any{newCopyRecords(), newRefusals()}, []any{h.copied, h.refusals}, cmp.AllowUnexported(copyRecords{}, refusals{}, original{}, copyVersions{}, claim{}), cmpopts.IgnoreTypes(sync.Mutex{})); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
}

func TestChangedCopy_NotifiesItsOwners(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("secrets"), "creds", errors.New("changed"))
	tests := map[string]struct {
		err    error
		copies []runtime.Object
		want   []types.UID
		wakes  bool
	}{
		"its only owner":                {nil, []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-web"))}, []types.UID{"u-web"}, false},
		"all that share it":             {nil, []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-db"), ownedBy("u-web"))}, []types.UID{"u-web", "u-db"}, true},
		"only its owner of a new copy":  {nil, nil, []types.UID{"u-web"}, false},
		"none if the write was refused": {conflict, []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-db"))}, nil, false},
		"all of one that may be there":  {io.ErrUnexpectedEOF, []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-db"))}, []types.UID{"u-web", "u-db"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset(append(test.copies, secretOf("ws", "creds", "2"))...)
			if test.err != nil {
				kube.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			}
			h := handlerWith(t)
			h.app.Kube = kube
			bd := deployment(fleet.DownstreamResource{Kind: "Secret", Name: "creds"})
			if _, err := h.copyAll(t.Context(), bd, everything(bd)); !errors.Is(err, test.err) {
				t.Errorf("error %v", err)
			}
			for _, uid := range []types.UID{"u-web", "u-db"} {
				if got := h.copied.takeChanged(uid); got != slices.Contains(test.want, uid) {
					t.Errorf("%s is owed: %v", uid, got)
				}
			}
			if got := h.queue.Behind(); got != test.wakes {
				t.Errorf("woken: %v", got)
			}
		})
	}
}

// A copy of which an agent was not told, for the process that wrote it ended, is told by the next, once; what was told
// is not told again.
func TestNextProcess_NotifiesTheAgent(t *testing.T) {
	creds := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}
	around := []runtime.Object{secretOf("ws", "creds", "2"), secretOf(there, "creds", "2", ownedBy("u-web"))} // both of version 7
	tests := map[string]struct {
		generation int64
		told       string
		want       bool
	}{
		"nothing yet":                 {0, "", true},
		"of another, with other data": {1, "secret/creds=3/4", true},
		"of this one":                 {1, "secret/creds=7/7", false},
		"of one with another original, of the same data": {1, "secret/creds=3/7", false},
		"of one with other owners":                       {1, "secret/creds=7/4", false},
		"of others":                                      {1, "configmap/creds=7/7 secret/other=7/7", true},
		"by a controller that records nothing":           {3, "", false},
		"an invalid annotation":                          {1, "secret/creds secret=7", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			h := handlerWith(t, around...)
			hub.App.Kube, h.app = h.app.Kube, hub.App
			h.report = func(*fleet.BundleDeployment, string) {}
			bd := deployment(creds)
			bd.Spec.DownstreamResourcesGeneration = test.generation
			if test.told != "" {
				bd.Annotations = map[string]string{annotation.CopiesTold: test.told}
			}
			put(hub, bd)
			want := *bd.DeepCopy()
			if test.want {
				want.Spec.DownstreamResourcesGeneration++
				want.Annotations = map[string]string{annotation.CopiesTold: "secret/creds=7/7"}
			}
			for range 2 {
				if err := h.handle(t.Context(), types.NamespacedName{Namespace: there, Name: "web"}); err != nil {
					t.Fatal(err)
				}
				hub.Sync()
				got := hubtest.MustGet[*fleet.BundleDeployment](t, hub, there, "web")
				if diff := cmp.Diff([]any{want.Spec, want.Annotations}, []any{got.Spec, got.Annotations}); diff != "" {
					t.Errorf("the BundleDeployment (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A first try that failed does not keep the next from telling.
func TestNextProcess_RetriesTheNotification(t *testing.T) {
	hub := hubtest.New(t)
	h := handlerWith(t, secretOf("ws", "creds", "2"), secretOf(there, "creds", "2", ownedBy("u-web")))
	down := errors.New("connection refused")
	failing := true
	h.app.Kube.(*fake.Clientset).PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return failing, nil, down })
	hub.App.Kube, h.app = h.app.Kube, hub.App
	h.report = func(*fleet.BundleDeployment, string) {}
	put(hub, deployment(fleet.DownstreamResource{Kind: "Secret", Name: "creds"}))
	key := types.NamespacedName{Namespace: there, Name: "web"}
	if err := h.handle(t.Context(), key); !errors.Is(err, down) {
		t.Fatalf("error %v", err)
	}
	failing = false
	if err := h.handle(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	hub.Sync()
	if got := hubtest.MustGet[*fleet.BundleDeployment](t, hub, there, "web").Spec.DownstreamResourcesGeneration; got != 1 {
		t.Errorf("generation %d", got)
	}
}

func FuzzParseCopies(f *testing.F) {
	f.Add("secret/creds=7/8 configmap/settings=9/10")
	f.Add("= / =/ a=b c=/d x=1/2/3")
	f.Fuzz(func(t *testing.T, annotation string) {
		read := parseCopies(annotation)
		if diff := cmp.Diff(read, parseCopies(read.String()), cmp.AllowUnexported(copyVersions{})); diff != "" {
			t.Errorf("written and read again (-first +second):\n%s", diff)
		}
	})
}

// A tenant may have any number of Clusters, each with a namespace of its own.
func TestClustersOfOneWorkspace_LeaveWorkersToOthers(t *testing.T) {
	hub, h := hubWith(t)
	index.Add(hub.App)
	keyIn := func(workspace, name string) types.NamespacedName {
		c := cluster(workspace, name)
		c.Status.Namespace = names.ClusterNamespace(workspace, name)
		hub.Put(c)
		return types.NamespacedName{Namespace: c.Status.Namespace, Name: "web"}
	}
	var busy []types.NamespacedName
	for i := range 2 * workers {
		busy = append(busy, keyIn("busy", fmt.Sprint(i)))
	}
	other := keyIn("other", "one")
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		handled := map[types.NamespacedName]time.Duration{}
		var mu sync.Mutex
		start := time.Now()
		q := h.newQueue(func(_ context.Context, key types.NamespacedName) error {
			mu.Lock()
			handled[key] = time.Since(start)
			mu.Unlock()
			if key != other {
				<-time.After(time.Minute)
			}
			return nil
		})
		go q.Run(ctx)
		for _, key := range append(busy, other) {
			q.Add(key)
		}
		<-time.After(time.Hour)
		end()
		if after, isHandled := handled[other]; !isHandled || after > time.Second || len(handled) != len(busy)+1 {
			t.Errorf("%d are handled, that of the other workspace after %s", len(handled), after)
		}
	})
}
