package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const key = "fleet-default/east"

// newHub is a hub with the controller on it.
func newHub(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	if err := Register(context.Background(), hub.App); err != nil {
		t.Fatal(err)
	}
	hub.Put(objects...)
	return hub
}

func handle(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle("Cluster", key); err != nil {
		t.Fatal(err)
	}
}

// markedAccount is an account with the marks by which its Cluster is found.
func markedAccount() *corev1.ServiceAccount {
	account := agentAccount()
	account.Labels = map[string]string{fleet.LabelManaged: "true"}
	account.Annotations = map[string]string{
		fleet.AnnotationCluster: "east", fleet.AnnotationClusterRegistration: "request-1", fleet.AnnotationClusterRegistrationNamespace: "fleet-default",
	}
	return account
}

func markedDeployment(finalizers ...string) *fleet.BundleDeployment {
	d := deployment(finalizers...)
	d.Labels = map[string]string{fleet.LabelCluster: "east", fleet.LabelClusterNamespace: "fleet-default"}
	return d
}

func TestCluster_FromCreationToDeletion(t *testing.T) {
	hub := newHub(t, oneCluster(fresh))
	handle(t, hub)
	hubtest.ExpectOrder(t, hubtest.ExpectRequests(t, hub,
		"patch Cluster fleet-default/east", "create Namespace "+east, "update Cluster/status fleet-default/east",
	), "patch Cluster fleet-default/east", "create Namespace "+east, "update Cluster/status fleet-default/east")
	got := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-default", "east")
	if got.Status.Namespace != east || !hasFinalizer(got) {
		t.Errorf("the Cluster is %+v", got)
	}

	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub) // it is as it should be

	hub.Put(markedAccount(), markedDeployment(fleet.FinalizerBundleDeployment))
	leaving := got.DeepCopy()
	deleted(leaving)
	hub.Put(leaving)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "delete ServiceAccount "+east+"/request-1")
	hubtest.ExpectWoken(t, hub, "Cluster fleet-default/east in 2s")

	hub.Sync()
	handle(t, hub)
	requests := hubtest.ExpectRequests(t, hub, "get "+tickets, "get "+tickets, "create "+tickets, "patch BundleDeployment "+east+"/b", "delete Namespace "+east)
	hubtest.ExpectOrder(t, requests, "create "+tickets, "patch BundleDeployment "+east+"/b", "delete Namespace "+east)
	if left := hubtest.MustGet[*fleet.BundleDeployment](t, hub, east, "b"); len(left.Finalizers) > 0 {
		t.Errorf("it is still held by %v", left.Finalizers)
	}

	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get "+tickets, "patch Cluster fleet-default/east") // within the same second
	if left := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-default", "east"); hasFinalizer(left) {
		t.Errorf("it is still held by %v", left.Finalizers)
	}
}

// An API server accepts the token of a deleted account for some seconds. An agent uninstalls what it does not find.
func TestDeletedCluster_KeepsDeploymentsUntilRightsAreGone(t *testing.T) {
	ofUser := agentRights()
	ofUser.Name, ofUser.RoleRef.Name = "of-user", "view"
	hub := newHub(t, oneCluster(deleted), ours(), agentRights(), ofUser, markedDeployment(fleet.FinalizerBundleDeployment))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "delete RoleBinding "+east+"/request-1")
	hubtest.ExpectWoken(t, hub, "Cluster fleet-default/east in 2s")
	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get "+tickets, "get "+tickets, "create "+tickets, "patch BundleDeployment "+east+"/b", "delete Namespace "+east)
}

func TestDeletedCluster_RevokesOnlyItsOwnAccounts(t *testing.T) {
	byHand := agentAccount()
	byHand.Labels = map[string]string{fleet.LabelManaged: "true"}
	going := markedAccount()
	going.Name, going.DeletionTimestamp = "request-2", &metav1.Time{Time: time.Unix(1, 0)}
	hub := newHub(t, oneCluster(deleted), ours(), byHand, going)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get "+tickets, "get "+tickets, "create "+tickets, "delete Namespace "+east)
}

func TestEmptySchedulingCustomization_IsRemoved(t *testing.T) {
	hub := newHub(t, oneCluster(func(c *fleet.Cluster) { c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{} }), ours())
	handle(t, hub)
	got := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-default", "east")
	if got.Spec.AgentSchedulingCustomization != nil || !hasFinalizer(got) {
		t.Errorf("the Cluster is %+v", got)
	}
	hub.Sync()
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
}

// The owner of another namespace could read everything that the hub writes there.
func TestExistingNamespace_IsUsedOnlyIfMarkedForTheCluster(t *testing.T) {
	tests := map[string]struct {
		marks func(*corev1.Namespace)
		want  string
	}{
		"made for this Cluster: it is used":                 {func(*corev1.Namespace) {}, east},
		"without marks: it is not used":                     {unmarked, ""},
		"made for another Cluster of the computed name: no": {ofWest, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, oneCluster(fresh))
			hub.Have(ours(test.marks)) // the cache has not seen it
			handle(t, hub)
			got := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-default", "east")
			if got.Status.Namespace != test.want {
				t.Errorf("the Cluster's namespace is %q, want %q", got.Status.Namespace, test.want)
			}
			processed := conditions.Get(got.Status.Conditions, conditions.Processed)
			if refused := processed.Reason == "NamespaceTaken"; refused != (test.want == "") {
				t.Errorf("the condition is %+v", processed)
			}
			if diff := cmp.Diff(ours(test.marks).Annotations, hubtest.MustGet[*corev1.Namespace](t, hub, "", east).Annotations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("its marks changed (-want +got):\n%s", diff)
			}
		})
	}
}

// A Cluster whose namespace is refused is looked at again: the end of a namespace without marks wakes no Cluster.
func TestRefusedNamespace_IsLookedAtAgain(t *testing.T) {
	hub := newHub(t, oneCluster(fresh), ours(unmarked))
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, "Cluster fleet-default/east in 15s")
	hub.Sync()
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
}

// A Cluster that goes takes only the accounts that were made for it.
func TestAccountOfAnotherCluster_IsNotRevoked(t *testing.T) {
	annotated := func(annotation, value string) *corev1.ServiceAccount {
		account := markedAccount()
		account.Annotations[annotation] = value
		return account
	}
	tests := map[string]*corev1.ServiceAccount{
		"of another Cluster":      annotated(fleet.AnnotationCluster, "west"),
		"of another workspace":    annotated(fleet.AnnotationClusterRegistrationNamespace, "team-b"),
		"of no request":           annotated(fleet.AnnotationClusterRegistration, ""),
		"that names no Cluster":   annotated(fleet.AnnotationCluster, ""),
		"that names no workspace": annotated(fleet.AnnotationClusterRegistrationNamespace, ""),
	}
	for name, account := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, oneCluster(deleted, managed), ours(ofWest), account, markedDeployment(fleet.FinalizerBundleDeployment))
			handle(t, hub)
			hubtest.ExpectRequests(t, hub, "get "+tickets, "create "+tickets, "patch Cluster fleet-default/east") // its finalizer
		})
		t.Run(name+", Cluster was deleted by force", func(t *testing.T) {
			hub := newHub(t, ours(), account)
			handle(t, hub)
			hubtest.ExpectRequests(t, hub, "get Cluster fleet-default/east", "get "+tickets, "create "+tickets, "delete Namespace "+east)
		})
	}
}

// Another manager's Cluster is not written, whatever its status says.
func TestClusterOfAnotherManager_IsNotWritten(t *testing.T) {
	hub := newHub(t, oneCluster(managed, placed("")), ours(ofWest))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
}

// The deletion event of an unmarked namespace does not name a Cluster.
func TestUnmarkedTerminatingNamespace_ClusterIsRequeued(t *testing.T) {
	hub := newHub(t, oneCluster(fresh), ours(unmarked, terminating))
	if err := hub.Handle("Cluster", key); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectWoken(t, hub, "Cluster fleet-default/east in 2s")
}

func TestFailedRequest_IsReportedAndRetried(t *testing.T) {
	no := errors.New("no")
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "x")
	tests := map[string]struct {
		objects []hubtest.Object
		request string
		fails   error
		want    string
		status  *fleet.ClusterStatus
	}{
		"namespace cannot be created: reported on the Cluster": {
			objects: []hubtest.Object{oneCluster(fresh)}, request: "create Namespace " + east, fails: no,
			want: "creating the cluster's namespace: no",
			status: &fleet.ClusterStatus{Conditions: []genericcondition.GenericCondition{{
				Type: "Processed", Status: "False", Reason: "Error", Message: "creating the cluster's namespace: no", LastUpdateTime: "2026-01-01T12:00:00Z",
			}}},
		},
		"finalizer cannot be added: nothing else is written": {
			objects: []hubtest.Object{oneCluster(fresh)}, request: "patch Cluster fleet-default/east", fails: no,
			want: "writing fleet-default/east: no",
		},
		"status cannot be written: an error": {
			objects: []hubtest.Object{oneCluster(fresh)}, request: "update Cluster/status fleet-default/east", fails: no,
			want: "writing fleet-default/east: no",
		},
		"account cannot be revoked: nothing else is deleted": {
			objects: []hubtest.Object{oneCluster(deleted), ours(), markedAccount()}, request: "delete ServiceAccount " + east + "/request-1", fails: no,
			want: "revoking account " + east + "/request-1: no",
		},
		"account is deleted already: success": {
			objects: []hubtest.Object{oneCluster(deleted), ours(), markedAccount()}, request: "delete ServiceAccount " + east + "/request-1", fails: gone,
		},
		"BundleDeployment cannot be drained: namespace stays": {
			objects: []hubtest.Object{oneCluster(deleted), ours(), markedDeployment(fleet.FinalizerBundleDeployment)},
			request: "patch BundleDeployment " + east + "/b", fails: no, want: "writing " + east + "/b: no",
		},
		"namespace cannot be deleted: Cluster stays": {
			objects: []hubtest.Object{oneCluster(deleted), ours()}, request: "delete Namespace " + east, fails: no,
			want: "deleting namespace " + east + ": no",
		},
		"deletion is refused: reported and retried with backoff": {
			objects: []hubtest.Object{oneCluster(deleted), ours()}, request: "delete Namespace " + east,
			fails: apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, east, errors.New("a policy")),
			want:  "deleting namespace " + east + `: namespaces "` + east + `" is forbidden: a policy`,
			status: &fleet.ClusterStatus{Namespace: east, Conditions: []genericcondition.GenericCondition{{
				Type: "Processed", Status: "False", Reason: "Error", LastUpdateTime: "2026-01-01T12:00:00Z",
				Message: "deleting namespace " + east + `: namespaces "` + east + `" is forbidden: a policy`,
			}}},
		},
		"namespace is deleted already: success": {
			objects: []hubtest.Object{oneCluster(deleted), ours()}, request: "delete Namespace " + east, fails: gone,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, test.objects...)
			hub.Fail(test.request, test.fails)
			err := hub.Handle("Cluster", key)
			if got := text(err); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
			if woken := hub.Woken(); err != nil && len(woken) > 0 {
				t.Errorf("it is tried again before the queue would: %v", woken)
			}
			if test.status != nil {
				got := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-default", "east")
				if diff := cmp.Diff(*test.status, got.Status); diff != "" {
					t.Errorf("the status differs (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestUnreadableCache_ReturnsAnError(t *testing.T) {
	t.Run("namespaces", func(t *testing.T) {
		hub := newHub(t, oneCluster())
		hub.Spoil(ours())
		if err := hub.Handle("Cluster", key); err == nil {
			t.Error("want an error")
		}
	})
	t.Run("namespaces, Cluster is deleted", func(t *testing.T) {
		hub := newHub(t)
		hub.Spoil(ours())
		if err := hub.Handle("Cluster", key); err == nil {
			t.Error("want an error")
		}
	})
}

func TestDeletedCluster_LeftoversAreRemoved(t *testing.T) {
	held := markedDeployment(fleet.FinalizerBundleDeployment)
	asked, deletedToo := "get Cluster fleet-default/east", "delete Namespace "+east
	tests := map[string]struct {
		objects []hubtest.Object
		want    []string
	}{
		"late BundleDeployment: drained":                  {[]hubtest.Object{ours(terminating), held}, []string{asked, "get " + tickets, "get " + tickets, "create " + tickets, "patch BundleDeployment " + east + "/b"}},
		"leftover namespace: deleted after the rights":    {[]hubtest.Object{ours(), held, markedAccount()}, []string{asked, "delete ServiceAccount " + east + "/request-1", "get " + tickets, "create " + tickets, deletedToo}},
		"namespace without our label: unchanged":          {[]hubtest.Object{ours(unlabelled), held, markedAccount()}, nil},
		"namespace without the Cluster's name: unchanged": {[]hubtest.Object{ours(unmarked), held}, nil},
		"namespace of another Cluster: unchanged":         {[]hubtest.Object{ours(ofWest), held}, nil},
		"namespace that is marked to stay: unchanged":     {[]hubtest.Object{ours(toStay), held}, nil},
		"namespace of another manager: unchanged":         {[]hubtest.Object{ours(managedByThem), held}, nil},
		"BundleDeployment with another finalizer: stays":  {[]hubtest.Object{ours(terminating, unlabelled), markedDeployment("theirs")}, nil},
		"no namespace: no request":                        {nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, test.objects...)
			handle(t, hub)
			hubtest.ExpectRequests(t, hub, test.want...)
		})
	}
}

func unlabelled(n *corev1.Namespace) { n.Labels = nil }

func toStay(n *corev1.Namespace) { n.Labels[fleet.LabelSetPrune] = "false" }

func managedByThem(n *corev1.Namespace) { n.Labels[fleet.LabelClusterManagement] = "them" }

func TestClusterMissingInTheCache_NamespaceStays(t *testing.T) {
	hub := newHub(t, ours(), markedAccount())
	hub.Have(oneCluster())
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get Cluster fleet-default/east")
}

func TestLeftoverNamespace_StaysUntilRequestsSucceed(t *testing.T) {
	no := errors.New("no")
	for request, want := range map[string]string{
		"get Cluster fleet-default/east":               "no",
		"delete ServiceAccount " + east + "/request-1": "namespace " + east + ": revoking account " + east + "/request-1: no",
		"delete Namespace " + east:                     "deleting namespace " + east + ": no",
	} {
		t.Run(request, func(t *testing.T) {
			hub := newHub(t, ours(), markedAccount())
			hub.Fail(request, no)
			if got := text(hub.Handle("Cluster", key)); got != want {
				t.Errorf("error %q, want %q", got, want)
			}
			if hubtest.Get[*corev1.Namespace](hub, "", east) == nil {
				t.Error("the namespace is gone all the same")
			}
		})
	}
}

func TestEvents_EnqueueTheCluster(t *testing.T) {
	eastKey := []types.NamespacedName{{Namespace: "fleet-default", Name: "east"}}
	tests := map[string]struct {
		cluster hubtest.Object
		wake    func(*handler) []types.NamespacedName
		want    []types.NamespacedName
	}{
		"its namespace: enqueued": {
			cluster: oneCluster(), wake: func(*handler) []types.NamespacedName { return clusterOfNamespace(ours()) }, want: eastKey,
		},
		"namespace without marks: not enqueued": {
			cluster: oneCluster(), wake: func(*handler) []types.NamespacedName { return clusterOfNamespace(ours(unmarked)) },
		},
		"account of an agent, Cluster is being deleted: enqueued": {
			cluster: oneCluster(deleted), wake: func(h *handler) []types.NamespacedName { return h.leavingOfAccount(markedAccount()) }, want: eastKey,
		},
		"account of an agent: not enqueued": {
			cluster: oneCluster(), wake: func(h *handler) []types.NamespacedName { return h.leavingOfAccount(markedAccount()) },
		},
		"BundleDeployment, Cluster is being deleted: enqueued": {
			cluster: oneCluster(deleted), wake: func(h *handler) []types.NamespacedName { return h.leavingOfDeployment(markedDeployment()) }, want: eastKey,
		},
		"BundleDeployment, Cluster is deleted: enqueued": {
			cluster: ours(), wake: func(h *handler) []types.NamespacedName { return h.leavingOfDeployment(markedDeployment()) }, want: eastKey,
		},
		"BundleDeployment: not enqueued": {
			cluster: oneCluster(), wake: func(h *handler) []types.NamespacedName { return h.leavingOfDeployment(markedDeployment()) },
		},
		"other account: not enqueued": {
			cluster: oneCluster(deleted), wake: func(h *handler) []types.NamespacedName { return h.leavingOfAccount(agentAccount()) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, test.cluster)
			if diff := cmp.Diff(test.want, test.wake(&handler{app: hub.App})); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}
