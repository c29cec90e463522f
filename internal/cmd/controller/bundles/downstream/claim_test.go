package downstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// TestForgedBundleDeployment_NothingIsCopied reconciles BundleDeployments that a tenant has written, beside Secrets
// that do not belong to the tenant.
func TestForgedBundleDeployment_NothingIsCopied(t *testing.T) {
	creds, other := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}, fleet.DownstreamResource{Kind: "Secret", Name: "other"}
	relabelled := func(labels map[string]string) func(*hubtest.Hub, *fleet.BundleDeployment) {
		return func(_ *hubtest.Hub, bd *fleet.BundleDeployment) {
			for key, value := range labels {
				bd.Labels[key] = value
			}
		}
	}
	tests := map[string]struct {
		change         func(*hubtest.Hub, *fleet.BundleDeployment)
		copied, forged bool
	}{
		"created by the hub: the Secret is copied": {func(*hubtest.Hub, *fleet.BundleDeployment) {}, true, false},
		"in a workspace: nothing is copied":        {func(_ *hubtest.Hub, bd *fleet.BundleDeployment) { bd.Namespace = "tenant" }, false, true},
		"under another name: nothing is copied":    {func(_ *hubtest.Hub, bd *fleet.BundleDeployment) { bd.Name = "other" }, false, true},
		"in the namespace of another Cluster": {func(_ *hubtest.Hub, bd *fleet.BundleDeployment) {
			bd.Namespace = names.ClusterNamespace("tenant", "own")
		}, false, true},
		"of a missing Bundle: nothing is copied": {relabelled(map[string]string{fleet.LabelBundleNamespace: "elsewhere"}), false, true},
		"of a missing Cluster: nothing is copied": {func(_ *hubtest.Hub, bd *fleet.BundleDeployment) {
			bd.Labels[fleet.LabelCluster], bd.Namespace = "none", names.ClusterNamespace("ws", "none")
		}, false, true},
		"for a Cluster of a workspace that nothing maps to: nothing is copied": {func(hub *hubtest.Hub, bd *fleet.BundleDeployment) {
			hub.Put(cluster("tenant", "own"))
			bd.Labels[fleet.LabelClusterNamespace], bd.Labels[fleet.LabelCluster] = "tenant", "own"
			bd.Namespace = names.ClusterNamespace("tenant", "own")
		}, false, true},
		"a Secret that the Bundle does not name: it is not copied": {func(hub *hubtest.Hub, _ *fleet.BundleDeployment) { hub.Put(bundle("web", other)) }, false, false},
		"a Secret that the Bundle names for another Cluster: it is not copied": {func(hub *hubtest.Hub, _ *fleet.BundleDeployment) {
			b := bundle("web")
			elsewhere := fleet.BundleTarget{ClusterName: "two"}
			elsewhere.DownstreamResources = []fleet.DownstreamResource{creds}
			b.Spec.Targets = []fleet.BundleTarget{elsewhere, {ClusterName: "one"}}
			hub.Put(b)
		}, false, false},
		"a Secret that the Bundle names for this Cluster: it is copied": {func(hub *hubtest.Hub, _ *fleet.BundleDeployment) {
			b := bundle("web")
			here := fleet.BundleTarget{ClusterName: "one"}
			here.DownstreamResources = []fleet.DownstreamResource{creds}
			b.Spec.Targets = []fleet.BundleTarget{here}
			hub.Put(b)
		}, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, h := hubWith(t)
			bd := deployment(creds)
			put(hub, deployment(creds).DeepCopy())
			hub.Remove(deployment(creds))
			test.change(hub, bd)
			hub.Put(bd)
			if err := h.handle(t.Context(), reconcile.KeyOf(bd)); err != nil {
				t.Fatal(err)
			}
			_, err := h.app.Kube.CoreV1().Secrets(bd.Namespace).Get(t.Context(), "creds", metav1.GetOptions{})
			if copied := err == nil; copied != test.copied || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("copied: %v, want %v (%v)", copied, test.copied, err)
			}
			if events := hub.Told(); slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, conditions.ReasonBundleDeploymentForged) }) != test.forged {
				t.Errorf("Events: %v", events)
			}
		})
	}
}

// hubWith is a hub with Secrets in a workspace, and the handler of copies on it.
func hubWith(t *testing.T) (*hubtest.Hub, *handler) {
	t.Helper()
	hub := hubtest.New(t)
	h := handlerWith(t, secretOf("ws", "creds", "1"), secretOf("elsewhere", "creds", "1"))
	hub.App.Kube, h.app = h.app.Kube, hub.App
	h.report = func(*fleet.BundleDeployment, string) {}
	h.addIndex()
	return hub, h
}

func TestRefusedCopiesAreRetried(t *testing.T) {
	creds := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}
	tests := map[string]struct {
		without func(*hubtest.Hub)
		appear  func(*handler)
		want    bool
	}{
		"its Bundle appears: retried": {
			func(hub *hubtest.Hub) { hub.Remove(bundle("web")) },
			func(h *handler) { h.onBundle(reconcile.Change[*fleet.Bundle]{New: bundle("web", creds)}) }, true,
		},
		"its Bundle changes: retried": {
			func(hub *hubtest.Hub) { hub.Put(bundle("web")) },
			func(h *handler) {
				newer := bundle("web", creds)
				newer.Generation++
				h.onBundle(reconcile.Change[*fleet.Bundle]{Old: bundle("web"), New: newer})
			}, true,
		},
		"another Bundle appears: not retried": {
			func(hub *hubtest.Hub) { hub.Remove(bundle("web")) },
			func(h *handler) { h.onBundle(reconcile.Change[*fleet.Bundle]{New: bundle("db", creds)}) }, false,
		},
		"its Cluster appears: retried": {
			func(hub *hubtest.Hub) { hub.Remove(cluster("ws", "one")) },
			func(h *handler) { h.onCluster(reconcile.Change[*fleet.Cluster]{New: cluster("ws", "one")}) }, true,
		},
		"its Cluster reports: not retried": {
			func(hub *hubtest.Hub) { hub.Put(bundle("web")) },
			func(h *handler) {
				h.onCluster(reconcile.Change[*fleet.Cluster]{Old: cluster("ws", "one"), New: cluster("ws", "one")})
			}, false,
		},
		"a mapping of its Bundle's workspace appears: retried": {
			func(hub *hubtest.Hub) { hub.Remove(bundle("web")) },
			func(h *handler) {
				h.onMapping(reconcile.Change[*fleet.BundleNamespaceMapping]{New: &fleet.BundleNamespaceMapping{ObjectMeta: metav1.ObjectMeta{Namespace: "ws"}}})
			}, true,
		},
		"its Cluster's workspace has other labels: retried": {
			func(hub *hubtest.Hub) { hub.Remove(bundle("web")) },
			func(h *handler) {
				older := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws"}}
				newer := older.DeepCopy()
				newer.Labels = map[string]string{"a": "b"}
				h.onNamespace(reconcile.Change[*corev1.Namespace]{Old: older, New: newer})
			}, true,
		},
		"a group of its Cluster's workspace appears: retried": {
			func(hub *hubtest.Hub) { hub.Put(bundle("web")) },
			func(h *handler) {
				h.onGroup(reconcile.Change[*fleet.ClusterGroup]{New: &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws"}}})
			}, true,
		},
		"nothing was refused: not retried": {
			func(*hubtest.Hub) {},
			func(h *handler) { h.onBundle(reconcile.Change[*fleet.Bundle]{New: bundle("web", creds)}) }, false,
		},
		"the Secret is not a Cluster's kubeconfig any more: retried": {
			func(hub *hubtest.Hub) { hub.Put(imported("ws", "creds")) },
			func(h *handler) { h.onCluster(reconcile.Change[*fleet.Cluster]{Old: imported("ws", "creds")}) }, true,
		},
		"a Secret beside one that was forged appears: not retried": {
			func(hub *hubtest.Hub) { hub.Remove(bundle("web")) },
			func(h *handler) {
				h.onOriginal(original{kindSecret, types.NamespacedName{Namespace: there, Name: "any"}})
			}, false,
		},
		"conflicting object is deleted: retried": {
			func(hub *hubtest.Hub) {
				if err := hub.App.Kube.(*fake.Clientset).Tracker().Add(secretOf(there, "creds", "other")); err != nil {
					panic(err)
				}
			},
			func(h *handler) {
				h.onOriginal(original{kindSecret, types.NamespacedName{Namespace: there, Name: "creds"}})
			}, true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, h := hubWith(t)
			put(hub, deployment(creds))
			test.without(hub)
			if err := h.handle(t.Context(), types.NamespacedName{Namespace: there, Name: "web"}); err != nil {
				t.Fatal(err)
			}
			h.queue = h.newQueue(h.handle)
			test.appear(h)
			if got := h.queue.Behind(); got != test.want {
				t.Errorf("retried: %v", got)
			}
		})
	}
}

// imported is a Cluster that names a Secret of workspace ws as its kubeconfig.
func imported(workspace, secret string) *fleet.Cluster {
	c := cluster(workspace, "imported")
	c.Spec.KubeConfigSecret, c.Spec.KubeConfigSecretNamespace = secret, "ws"
	return c
}

func TestKubeconfig_IsNotCopied(t *testing.T) {
	creds := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}
	kubeconfig := func(s *corev1.Secret) { s.Data = map[string][]byte{"value": []byte("kubeconfig")} }
	holds := func(key string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = kubetest.Kubeconfig() }
	}
	named := errKubeconfig.Error()
	tests := map[string]struct {
		cluster *fleet.Cluster
		secret  *corev1.Secret
		refused string
	}{
		"a Cluster of the workspace names it":                                    {imported("ws", "creds"), secretOf("ws", "creds", "1"), named},
		"a Cluster of another workspace names what is not a kubeconfig: copied":  {imported("away", "creds"), secretOf("ws", "creds", "1", kubeconfig), ""},
		"a Cluster of another workspace names a kubeconfig: refused":             {imported("away", "creds"), secretOf("ws", "creds", "1", holds("value")), "its key value: " + errHeldKubeconfig.Error()},
		"a Cluster names another Secret, and this one has no kubeconfig: copied": {imported("ws", "other"), secretOf("ws", "creds", "1", kubeconfig), ""},
		"no Cluster names it, it has a kubeconfig":                               {imported("ws", "other"), secretOf("ws", "creds", "1", holds("value")), "its key value: " + errHeldKubeconfig.Error()},
		"it has a kubeconfig under another key":                                  {imported("ws", "other"), secretOf("ws", "creds", "1", holds("admin.conf")), "its key admin.conf: " + errHeldKubeconfig.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			h := handlerWith(t, test.secret)
			hub.App.Kube, h.app = h.app.Kube, hub.App
			var told string
			h.report = func(_ *fleet.BundleDeployment, trouble string) { told = trouble }
			put(hub, deployment(creds))
			hub.Put(test.cluster)
			if err := h.handle(t.Context(), types.NamespacedName{Namespace: there, Name: "web"}); err != nil {
				t.Fatal(err)
			}
			want := ""
			if test.refused != "" {
				want = "downstreamResources[0]: Secret creds: " + test.refused
			}
			if _, err := h.app.Kube.CoreV1().Secrets(there).Get(t.Context(), "creds", metav1.GetOptions{}); told != want || (err == nil) != (want == "") {
				t.Errorf("trouble %q, want %q; copy: %v", told, want, err)
			}
		})
	}
}

func TestCopyOfARefusedOriginal_IsTakenAway(t *testing.T) {
	creds := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}
	refused := secretOf("ws", "creds", "1", func(s *corev1.Secret) { s.Data["kubeconfig"] = kubetest.Kubeconfig() })
	tests := map[string]struct {
		copied *corev1.Secret
		owners []types.UID // of what is left, nil for nothing
	}{
		"a copy that an earlier release made: goes":                 {secretOf(there, "creds", "1", ownedBy("u-web")), nil},
		"a copy that another BundleDeployment has, too: is its own": {secretOf(there, "creds", "1", ownedBy("u-web"), ownedBy("u-db")), []types.UID{"u-db"}},
		"a Secret that is not a copy: stays":                        {secretOf(there, "creds", "1", ownedBy("u-db")), []types.UID{"u-db"}},
		"Fleet's own Secret: stays":                                 {secretOf(there, "creds", "1", ownedBy("u-web"), ofType(fleet.SecretTypeBundleDeployment)), []types.UID{"u-web"}},
		"Fleet's own Secret, by its label: stays":                   {secretOf(there, "creds", "1", ownedBy("u-web"), anInternal), []types.UID{"u-web"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := handlerWith(t, refused, test.copied)
			bd := deployment(creds)
			h.copied.add(bd.UID, originalsOf(bd)[0], copyVersions{of: "6"})
			trouble, err := h.copyAll(t.Context(), bd, everything(bd))
			if want := "downstreamResources[0]: Secret creds: its key kubeconfig: " + errHeldKubeconfig.Error(); err != nil || trouble != want {
				t.Errorf("trouble %q, %v, want %q", trouble, err, want)
			}
			var owners []types.UID
			if left, err := h.app.Kube.CoreV1().Secrets(there).Get(t.Context(), "creds", metav1.GetOptions{}); err == nil {
				for _, owner := range left.OwnerReferences {
					owners = append(owners, owner.UID)
				}
			}
			if !slices.Equal(owners, test.owners) {
				t.Errorf("what is left belongs to %v, want %v", owners, test.owners)
			}
		})
	}
}

func TestRefusedCopyThatCannotBeTakenAway_IsTriedAgain(t *testing.T) {
	h := handlerWith(t, secretOf("ws", "creds", "1", ofType(protocol.SecretTypeValues)), secretOf(there, "creds", "1", ownedBy("u-web")))
	fake, _ := h.app.Kube.(*fake.Clientset)
	fake.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("later"))
	})
	bd := deployment(fleet.DownstreamResource{Kind: "Secret", Name: "creds"})
	if _, err := h.copyAll(t.Context(), bd, everything(bd)); !apierrors.IsInternalError(err) {
		t.Errorf("error %v", err)
	}
}

func TestClaim_ParsesLargeSelectorsOnce(t *testing.T) {
	var values []string
	for i := range 20_000 {
		values = append(values, fmt.Sprintf("%x", i))
	}
	hub, h := hubWith(t)
	group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "g", UID: "u-g"}}
	group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "n", Operator: metav1.LabelSelectorOpNotIn, Values: values}}}
	hub.Put(group)
	b, c := bundle("web", fleet.DownstreamResource{Kind: "Secret", Name: "creds"}), cluster("ws", "one")
	got := testing.AllocsPerRun(1, func() {
		if asked, err := h.requestedBy(b, c); err != nil || len(asked) != 1 {
			t.Errorf("asked for %v, error %v", asked, err)
		}
	})
	if got > 1000 {
		t.Errorf("the second pass takes %.0f allocations", got)
	}
}
