package grant

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	kindRequest  = "ClusterRegistration"
	registration = "cattle-fleet-clusters-system"
	system       = "cattle-fleet-system"
	// clusterNamespace is the namespace of Cluster ws/c1.
	clusterNamespace = "cluster-ws-c1-552959a9c359"
	account          = "r1-u-r1" // of request ws/r1
	// contents is the ClusterRoleBinding by which accounts of Cluster ws/c1 read Contents.
	contents = "fleet-content-readers-23"
	// credential is the Secret of client "client" with random "random".
	credential = "c-8150d44f100d34d77e6d8589694d05645ec40ee2f47982eda19053e416662"
	// lifetime is what is asked for where a token must not end: the most there is.
	lifetime = "1193046h28m15s"
)

var errServer = errors.New("the server is upset")

func request(modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	r := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "r1", UID: "u-r1", Labels: map[string]string{fleet.LabelRegistrationToken: "t1"}},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: "client", ClientRandom: "random", ClusterLabels: map[string]string{"env": "dev"}},
	}
	for _, modify := range modifiers {
		modify(r)
	}
	return r
}

func named(name string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		r.Name, r.UID, r.Spec.ClientRandom = name, types.UID("u-"+name), "random of "+name
	}
}

func cluster(modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", UID: "u-c1"},
		Spec:       fleet.ClusterSpec{ClientID: "client"},
		Status:     fleet.ClusterStatus{Namespace: clusterNamespace},
	}
	for _, modify := range modifiers {
		modify(c)
	}
	return c
}

func seen(at time.Time) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.NewTime(at) }
}

func asked() *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1", UID: "u-t1"}}
}

func start(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	hub.Put(objects...)
	return hub
}

func handle(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle(kindRequest, "ws/r1"); err != nil {
		t.Fatal(err)
	}
}

// catchUp lets the caches see what is on the server, and plays contentreaders: all accounts that say they are of a request
// share their ClusterRoleBindings, and nobody else does.
func catchUp(t testing.TB, hub *hubtest.Hub) {
	t.Helper()
	hub.Sync()
	readers := map[string][]types.NamespacedName{}
	accounts, err := hub.App.ServiceAccounts.Cache().List("", labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	for _, sa := range accounts {
		key := types.NamespacedName{Namespace: sa.Namespace, Name: sa.Name}
		if _, says := contentreaders.RequestOf(sa); says {
			readers[contentreaders.Binding(key)] = append(readers[contentreaders.Binding(key)], key)
		}
	}
	bindings, err := hub.App.ClusterRoleBindings.Cache().List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range bindings {
		if contentreaders.IsBinding(binding.Name) {
			hub.Remove(binding)
		}
	}
	for name, accounts := range readers {
		hub.Put(contentreaders.Desired(name, accounts))
	}
}

// child is the metadata of what is in the set of ws/r1, whichever hub has made it.
func child(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Annotations: map[string]string{
			fleet.AnnotationSetID: grant.SetID, fleet.AnnotationSetOwnerGVK: "fleet.cattle.io/v1alpha1, Kind=ClusterRegistration",
			fleet.AnnotationSetOwnerName: "r1", fleet.AnnotationSetOwnerNamespace: "ws",
		},
		Labels: map[string]string{
			fleet.LabelManaged: "true", fleet.LabelSetHash: names.SetHash(grant.SetID, names.Owner{GVK: gvk().String(), Namespace: "ws", Name: "r1"}),
		},
	}
}

// ownBinding is the ClusterRoleBinding of its own that an older hub gave to ws/r1.
func ownBinding(modifiers ...func(*rbacv1.ClusterRoleBinding)) *rbacv1.ClusterRoleBinding {
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: child("", "r1-content"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.ContentRole},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: clusterNamespace, Name: account}},
	}
	for _, modify := range modifiers {
		modify(b)
	}
	return b
}

// settle lets the controller work and its caches follow, so many times.
func settle(t *testing.T, hub *hubtest.Hub, times int) {
	t.Helper()
	for range times {
		handle(t, hub)
		catchUp(t, hub)
	}
}

// grantedHub is a hub on which ws/r1 has been granted for Cluster ws/c1, and the caches show it.
func grantedHub(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := start(t, append([]hubtest.Object{request(), cluster(), asked()}, objects...)...)
	settle(t, hub, 2)
	if !current(t, hub).Status.Granted {
		t.Fatal("not granted after two rounds")
	}
	hub.Requests()
	hub.Woken()
	return hub
}

func current(t *testing.T, hub *hubtest.Hub) *fleet.ClusterRegistration {
	t.Helper()
	return hubtest.MustGet[*fleet.ClusterRegistration](t, hub, "ws", "r1")
}

func expectRequests(t *testing.T, hub *hubtest.Hub, want ...string) []string {
	t.Helper()
	return hubtest.ExpectRequests(t, hub, want...)
}

func expectStatus(t *testing.T, hub *hubtest.Hub, clusterName string, granted bool, want genericcondition.GenericCondition) {
	t.Helper()
	status := current(t, hub).Status
	if status.ClusterName != clusterName || status.Granted != granted {
		t.Errorf("clusterName %q, granted %v; want %q, %v", status.ClusterName, status.Granted, clusterName, granted)
	}
	got := conditions.Get(status.Conditions, conditions.Granted)
	if got == nil {
		t.Fatalf("no condition Granted in %+v", status)
	}
	got.LastUpdateTime, want.Type = "", conditions.Granted
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

// expectNothingHandedOut fails if there is a credential, which whoever asked might be able to read.
func expectNothingHandedOut(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if hubtest.Get[*corev1.Secret](hub, registration, credential) != nil {
		t.Error("the credential was handed out")
	}
}
