package contentreaders

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	kind  = "ClusterRoleBinding"
	space = "cluster-ws-c1-552959a9c359"
)

var errServer = errors.New("the server is upset")

// shared is the binding of Cluster ws/c1.
var shared = contentreaders.Binding(types.NamespacedName{Namespace: space})

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
	if err := hub.Handle(kind, shared); err != nil {
		t.Fatal(err)
	}
}

func cluster() *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1"}, Status: fleet.ClusterStatus{Namespace: space}}
}

func request(name string) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, UID: types.UID("u-" + name)}}
}

// account is that of a request for Cluster ws/c1.
func account(of string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: space, Name: of + "-u-" + of, Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{
			fleet.AnnotationCluster: "c1", fleet.AnnotationClusterRegistration: of, fleet.AnnotationClusterRegistrationNamespace: "ws",
		},
	}}
}

// binding is that of Cluster ws/c1 as it should be, for the accounts of these requests.
func binding(of ...string) *rbacv1.ClusterRoleBinding {
	b := &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Name: shared, Labels: map[string]string{fleet.LabelManaged: "true"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: names.ContentRole},
	}
	for _, name := range of {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: space, Name: name + "-u-" + name})
	}
	return b
}

// expectShared compares what is on the server with what should be there; nil for nothing.
func expectShared(t *testing.T, hub *hubtest.Hub, want *rbacv1.ClusterRoleBinding) {
	t.Helper()
	got := hubtest.Get[*rbacv1.ClusterRoleBinding](hub, "", shared)
	if got != nil {
		got = got.DeepCopy()
		got.UID, got.ResourceVersion, got.CreationTimestamp = "", "", metav1.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the shared binding (-want +got):\n%s", diff)
	}
}

func TestAccounts_AreAddedAndRemoved(t *testing.T) {
	hub := start(t, cluster(), request("r1"), request("r2"), request("r3"), account("r2"))
	steps := []struct {
		what     string
		do       func()
		want     *rbacv1.ClusterRoleBinding
		requests []string
	}{
		{"the first one", func() {}, binding("r2"), []string{"create " + kind + " " + shared}},
		{"nothing has changed", func() {}, binding("r2"), nil},
		{"two more", func() { hub.Put(account("r3"), account("r1")) }, binding("r1", "r2", "r3"), []string{"patch " + kind + " " + shared}},
		{"one leaves", func() { hub.Remove(account("r2")) }, binding("r1", "r3"), []string{"patch " + kind + " " + shared}},
		{"a request is gone before its account", func() { hub.Remove(request("r3")) }, binding("r1"), []string{"patch " + kind + " " + shared}},
		{"the last one leaves", func() { hub.Remove(account("r1")) }, nil, []string{"delete " + kind + " " + shared}},
		{"nobody is there", func() {}, nil, nil},
		{"another one comes", func() { hub.Put(account("r2")) }, binding("r2"), []string{"create " + kind + " " + shared}},
	}
	for _, step := range steps {
		step.do()
		handle(t, hub)
		t.Log(step.what)
		expectShared(t, hub, step.want)
		hubtest.ExpectRequests(t, hub, step.requests...)
		hub.Sync()
	}
}

// Two accounts may come before the cache has what was written for the first.
func TestNextWrite_StartsFromTheLastOne(t *testing.T) {
	hub := start(t, cluster(), request("r1"), request("r2"), account("r1"))
	handle(t, hub)
	hub.Put(account("r2"))
	handle(t, hub)
	expectShared(t, hub, binding("r1", "r2"))
	hubtest.ExpectRequests(t, hub, "create "+kind+" "+shared, "patch "+kind+" "+shared)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub) // and not written twice
}

// Any user who may create accounts in a namespace can copy the annotations of a request's account.
func TestForgedAccount_IsNotBound(t *testing.T) {
	tests := map[string]func(sa *corev1.ServiceAccount, r *fleet.ClusterRegistration, c *fleet.Cluster){
		"another name":                        func(sa *corev1.ServiceAccount, _ *fleet.ClusterRegistration, _ *fleet.Cluster) { sa.Name = "r1" },
		"its request was recreated":           func(_ *corev1.ServiceAccount, r *fleet.ClusterRegistration, _ *fleet.Cluster) { r.UID = "u-2" },
		"its request is of another workspace": func(_ *corev1.ServiceAccount, r *fleet.ClusterRegistration, _ *fleet.Cluster) { r.Namespace = "ws2" },
		"annotation of another Cluster": func(sa *corev1.ServiceAccount, _ *fleet.ClusterRegistration, _ *fleet.Cluster) {
			sa.Annotations[fleet.AnnotationCluster] = "c2"
		},
		"another namespace than its Cluster's": func(sa *corev1.ServiceAccount, _ *fleet.ClusterRegistration, c *fleet.Cluster) {
			sa.Annotations[fleet.AnnotationCluster], c.Name = "c2", "c2"
		},
		"no label of the hub":          func(sa *corev1.ServiceAccount, _ *fleet.ClusterRegistration, _ *fleet.Cluster) { sa.Labels = nil },
		"no annotation of the request": func(sa *corev1.ServiceAccount, _ *fleet.ClusterRegistration, _ *fleet.Cluster) { sa.Annotations = nil },
	}
	for name, modify := range tests {
		t.Run(name, func(t *testing.T) {
			sa, r, c := account("r1"), request("r1"), cluster()
			modify(sa, r, c)
			hub := start(t, sa, r, c)
			handle(t, hub)
			hubtest.ExpectRequests(t, hub)
			hub.Put(binding("r1")) // nor does it stay where somebody has put it
			handle(t, hub)
			expectShared(t, hub, nil)
		})
	}
}

func TestChangedBinding_IsRestored(t *testing.T) {
	tests := map[string]struct {
		modify   func(*rbacv1.ClusterRoleBinding)
		requests []string
	}{
		"account was added": {func(b *rbacv1.ClusterRoleBinding) {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "mine", Name: "mine"})
		}, []string{"patch " + kind + " " + shared}},
		"all subjects were removed": {func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil }, []string{"patch " + kind + " " + shared}},
		"another role": {func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "cluster-admin" },
			[]string{"delete " + kind + " " + shared, "create " + kind + " " + shared}},
		"label was removed, so it is in no cache": {func(b *rbacv1.ClusterRoleBinding) { b.Labels = nil },
			[]string{"create " + kind + " " + shared, "get " + kind + " " + shared, "patch " + kind + " " + shared}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			there := binding("r1")
			test.modify(there)
			hub := start(t, cluster(), request("r1"), account("r1"), there)
			handle(t, hub)
			expectShared(t, hub, binding("r1"))
			hubtest.ExpectRequests(t, hub, test.requests...)
		})
	}
}

func TestOtherBinding_IsIgnored(t *testing.T) {
	const name = "r1-content"
	other := binding("r1")
	other.Name = name
	hub := start(t, other)
	if err := hub.Handle(kind, name); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub)
}

func TestFailedRequest_ReturnsTheError(t *testing.T) {
	for asked, objects := range map[string][]hubtest.Object{
		"create " + kind + " " + shared: {account("r1")},
		"patch " + kind + " " + shared:  {account("r1"), binding("r1", "r2")},
		"delete " + kind + " " + shared: {binding("r1")},
	} {
		t.Run(asked, func(t *testing.T) {
			hub := start(t, append(objects, cluster(), request("r1"))...)
			hub.Fail(asked, errServer)
			if err := hub.Handle(kind, shared); !errors.Is(err, errServer) {
				t.Fatalf("error %v, want the server's", err)
			}
		})
	}
	for what, spoiled := range map[string]hubtest.Object{"Cluster": cluster(), "request": request("r1")} {
		t.Run("unreadable cache of "+what, func(t *testing.T) {
			hub := start(t, account("r1"), cluster(), request("r1"), binding("r1"))
			hub.Spoil(spoiled)
			if err := hub.Handle(kind, shared); err == nil {
				t.Fatal("nothing was wrong")
			}
			hubtest.ExpectRequests(t, hub) // nobody loses a right because somebody cannot look
		})
	}
}

func TestManyAccounts_ShareAFewBindings(t *testing.T) {
	hub := start(t)
	const clusters = 200
	var woken []string
	for i := range clusters {
		sa, r, c := account("r1"), request("r1"), cluster()
		workspace := fmt.Sprint("ws", i)
		sa.Namespace, r.Namespace, c.Namespace = names.ClusterNamespace(workspace, c.Name), workspace, workspace
		sa.Annotations[fleet.AnnotationClusterRegistrationNamespace] = workspace
		hub.Put(sa, r, c)
		woken = append(woken, contentreaders.Binding(types.NamespacedName{Namespace: sa.Namespace, Name: sa.Name}))
	}
	slices.Sort(woken)
	readers := 0
	for _, name := range slices.Compact(woken) {
		if err := hub.Handle(kind, name); err != nil {
			t.Fatal(err)
		}
		readers += len(hubtest.MustGet[*rbacv1.ClusterRoleBinding](t, hub, "", name).Subjects)
	}
	if written := len(hub.Requests()); readers != clusters || written > 32 {
		t.Errorf("%d accounts by %d writes, want %d by at most 32", readers, written, clusters)
	}
}
