package grant

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/grant/requestqueue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// all is what one granted request has, and what an older hub has given to it.
func all() []string {
	return []string{
		"delete ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1", "delete Role ws/r1", "delete RoleBinding cluster-ws-c1-552959a9c359/r1", "delete RoleBinding ws/r1",
		"delete ClusterRoleBinding r1-content", "delete Secret " + registration + "/" + credential,
		"delete RoleBinding " + registration + "/r1-creds", "delete Role " + registration + "/r1-creds",
	}
}

// grantedBefore is grantedHub with what is left of an older hub.
func grantedBefore(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := grantedHub(t, objects...)
	hub.Put(ownBinding())
	return hub
}

func expectRevoked(t *testing.T, hub *hubtest.Hub, reads ...string) {
	t.Helper()
	got := expectRequests(t, hub, append(all(), reads...)...)[len(reads):]
	if len(got) > 0 && got[0] != "delete ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1" {
		t.Errorf("%s came before the account went, and with it every token", got[0])
	}
}

func TestRights_AreRevokedWithTheRequestOrItsCluster(t *testing.T) {
	deleting := metav1.Now()
	tests := map[string]struct {
		end func(*testing.T, *hubtest.Hub)
		// reads are the requests that make sure that the Cluster is gone.
		reads []string
	}{
		"request is deleted": {end: func(_ *testing.T, h *hubtest.Hub) { h.Remove(request()) }},
		"request with a finalizer is being deleted": {end: func(t *testing.T, h *hubtest.Hub) {
			r := current(t, h)
			r.DeletionTimestamp = &deleting
			h.Put(r)
		}},
		"Cluster is deleted": {func(_ *testing.T, h *hubtest.Hub) { h.Remove(cluster()) }, []string{"get Cluster ws/c1"}},
		"Cluster is being deleted": {end: func(_ *testing.T, h *hubtest.Hub) {
			h.Put(cluster(func(c *fleet.Cluster) { c.DeletionTimestamp = &deleting }))
		}},
		"workspace is being deleted": {end: func(_ *testing.T, h *hubtest.Hub) {
			h.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", DeletionTimestamp: &deleting}})
		}},
		"Cluster was recreated": {func(_ *testing.T, h *hubtest.Hub) {
			h.Put(cluster(func(c *fleet.Cluster) { c.UID = "u-new" }))
		}, []string{"get Cluster ws/c1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := grantedBefore(t)
			test.end(t, hub)
			handle(t, hub)
			expectRevoked(t, hub, test.reads...)
			catchUp(t, hub)
			handle(t, hub)
			expectRequests(t, hub, test.reads...) // once
		})
	}
}

// A new leader lists each kind on its own, perhaps from API servers that lag by different amounts.
func TestRightsStay_IfOnlyTheCacheLacksTheCluster(t *testing.T) {
	for name, cached := range map[string]func(*hubtest.Hub){
		"no Cluster of the name":       func(*hubtest.Hub) {},
		"a former Cluster of the name": func(h *hubtest.Hub) { h.See(cluster(func(c *fleet.Cluster) { c.UID = "u-earlier" })) },
	} {
		t.Run(name, func(t *testing.T) {
			hub := grantedHub(t)
			live := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1")
			hub.Remove(live)
			hub.Have(live)
			cached(hub)
			handle(t, hub)
			expectRequests(t, hub, "get Cluster ws/c1")
		})
	}
}

func TestRevoke_KeepsRightsOfOtherRequests(t *testing.T) {
	// Of the same name in another workspace, and another one of the same workspace.
	namesake := request(func(r *fleet.ClusterRegistration) { r.Namespace, r.Spec.ClientRandom = "ws2", "other" })
	sibling := request(named("r2"))
	answers := func(r *fleet.ClusterRegistration) *corev1.Secret {
		return grant.CredentialSecret(r, registration, protocol.Credential{ClusterName: "c2", Token: "t"})
	}
	reader := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "r2-creds", Labels: map[string]string{fleet.LabelManaged: "true"}}}
	unmarked := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "c-unmarked"}, Type: protocol.SecretTypeCredential}
	hub := grantedBefore(t, answers(namesake), answers(sibling), reader, unmarked)
	// The namesake's reader has the name that ours had.
	for _, object := range []hubtest.Object{
		hubtest.MustGet[*rbacv1.Role](t, hub, registration, "r1-creds"), hubtest.MustGet[*rbacv1.RoleBinding](t, hub, registration, "r1-creds"),
	} {
		object.GetAnnotations()[fleet.AnnotationClusterRegistrationNamespace] = "ws2"
		hub.Put(object)
	}
	hub.Remove(request())
	handle(t, hub)
	expectRequests(t, hub, all()[:6]...) // without the reader
	for _, name := range []string{answers(namesake).Name, answers(sibling).Name, unmarked.Name} {
		hubtest.MustGet[*corev1.Secret](t, hub, registration, name)
	}
	hubtest.MustGet[*rbacv1.Role](t, hub, registration, "r2-creds")
}

func TestRevoke_IsRetriedAfterAnyFailure(t *testing.T) {
	for _, fail := range all() {
		t.Run(fail, func(t *testing.T) {
			hub := grantedBefore(t)
			hub.Remove(request())
			hub.Fail(fail, errServer)
			if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
				t.Errorf("error %v, want the server's", err)
			}
			hub.Fail(fail, nil)
			catchUp(t, hub)
			handle(t, hub)
			catchUp(t, hub)
			hub.Requests()
			handle(t, hub)
			expectRequests(t, hub)
			expectNothingHandedOut(t, hub)
			if hubtest.Get[*corev1.ServiceAccount](hub, clusterNamespace, account) != nil {
				t.Error("the account is still there")
			}
		})
	}
}

func TestObjectDeletedByOthers_IsNotAnError(t *testing.T) {
	hub := grantedBefore(t)
	hub.Remove(request())
	for _, object := range []hubtest.Object{
		hubtest.MustGet[*corev1.Secret](t, hub, registration, credential), hubtest.MustGet[*rbacv1.Role](t, hub, registration, "r1-creds"),
		hubtest.MustGet[*rbacv1.RoleBinding](t, hub, registration, "r1-creds"), hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account),
	} {
		hub.Remove(object)
		hub.See(object)
	}
	handle(t, hub)
	expectRevoked(t, hub)
}

func TestRequestOf(t *testing.T) {
	answer := grant.CredentialSecret(request(), registration, protocol.Credential{})
	if diff := cmp.Diff([]types.NamespacedName{{Namespace: "ws", Name: "r1"}}, requestOf(answer)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := requestOf(&corev1.Secret{}); got != nil {
		t.Errorf("a Secret that says nothing answers %v", got)
	}
}

func TestGather(t *testing.T) {
	derived := names.Cluster("client")
	status := func(r *fleet.ClusterRegistration) { r.Status.ClusterName = "c1" }
	imported := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "import-token-c1", UID: "u-i"}}
	right := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{fleet.LabelManaged: "true"}}
	}
	rights := []hubtest.Object{
		&corev1.ServiceAccount{ObjectMeta: right(clusterNamespace, account)}, &rbacv1.Role{ObjectMeta: right("ws", "r1")},
		&rbacv1.RoleBinding{ObjectMeta: right("ws", "r1")}, &rbacv1.RoleBinding{ObjectMeta: right(clusterNamespace, "r1")},
		contentreaders.Desired(contents, []types.NamespacedName{{Namespace: clusterNamespace, Name: account}}),
	}
	answer := grant.CredentialSecret(request(), registration, protocol.Credential{})
	type found struct {
		Clusters, Others                                                []string
		Derived, Named, Account, Rights, Credential, AskedFor, Imported bool
	}
	tests := map[string]struct {
		request *fleet.ClusterRegistration
		there   []hubtest.Object
		spoil   hubtest.Object
		want    found
		fails   bool
	}{
		"missing objects: nil": {request: request(), want: found{Others: []string{"r1"}}},
		"Clusters of the client in the workspace are found": {
			request: request(),
			there: []hubtest.Object{cluster(), cluster(func(c *fleet.Cluster) { c.Name, c.Spec.ClientID = "c2", "another" }),
				cluster(func(c *fleet.Cluster) { c.Namespace = "ws2" })},
			want: found{Clusters: []string{"c1"}, Others: []string{"r1"}},
		},
		"named Cluster is found with any client ID": {
			request: request(status), there: []hubtest.Object{cluster(func(c *fleet.Cluster) { c.Spec.ClientID = "another" })},
			want: found{Named: true, Others: []string{"r1"}},
		},
		"Cluster with the derived name is found": {
			request: request(), there: []hubtest.Object{cluster(func(c *fleet.Cluster) { c.Name, c.Spec.ClientID = derived, "another" })},
			want: found{Derived: true, Others: []string{"r1"}},
		},
		"requests of the client are found": {
			request: request(), there: []hubtest.Object{request(named("r2")), request(named("r3"), func(r *fleet.ClusterRegistration) { r.Spec.ClientID = "another" })},
			want: found{Others: []string{"r1", "r2"}},
		},
		"everything of a granted request": {
			request: request(status), there: append([]hubtest.Object{cluster(), asked(), imported, answer}, rights...),
			want: found{Clusters: []string{"c1"}, Others: []string{"r1"}, Named: true, Account: true, Rights: true, Credential: true, AskedFor: true, Imported: true},
		},
		"one right is missing: no rights": {
			request: request(), there: append([]hubtest.Object{cluster()}, rights[:4]...),
			want: found{Clusters: []string{"c1"}, Others: []string{"r1"}, Account: true},
		},
		"account is not in a content binding: no rights": {
			request: request(), there: append([]hubtest.Object{cluster(), ownBinding(), contentreaders.Desired(contents, []types.NamespacedName{{Namespace: clusterNamespace, Name: "r2-u-r2"}})}, rights[:4]...),
			want: found{Clusters: []string{"c1"}, Others: []string{"r1"}, Account: true},
		},
		"a Cluster that cannot be read":            {request: request(status), spoil: cluster(), fails: true},
		"a token that cannot be read":              {request: request(), spoil: asked(), fails: true},
		"a credential that cannot be read":         {request: request(), spoil: answer, fails: true},
		"an account that cannot be read":           {request: request(), there: []hubtest.Object{cluster()}, spoil: rights[0], fails: true},
		"a Role that cannot be read":               {request: request(), there: []hubtest.Object{cluster()}, spoil: rights[1], fails: true},
		"a RoleBinding that cannot be read":        {request: request(), there: []hubtest.Object{cluster()}, spoil: rights[2], fails: true},
		"another RoleBinding that cannot be read":  {request: request(), there: []hubtest.Object{cluster()}, spoil: rights[3], fails: true},
		"a ClusterRoleBinding that cannot be read": {request: request(), there: []hubtest.Object{cluster()}, spoil: rights[4], fails: true},
		"an import token that cannot be read":      {request: request(), there: []hubtest.Object{cluster()}, spoil: imported, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, append(test.there, test.request)...)
			if test.spoil != nil {
				hub.Spoil(test.spoil)
			}
			h := &handler{app: hub.App, queue: requestqueue.New()}
			in, err := h.gather(test.request)
			if (err != nil) != test.fails {
				t.Fatalf("error %v", err)
			}
			expectRequests(t, hub) // everything is in a cache
			if test.fails {
				return
			}
			got := found{
				Derived: in.Derived != nil, Named: in.Named != nil, Account: in.Account != nil, Rights: in.RightsExist,
				Credential: in.Credential != nil, AskedFor: in.NamedToken != nil, Imported: in.Imported != nil,
			}
			for _, c := range in.Clusters {
				got.Clusters = append(got.Clusters, c.Name)
			}
			for _, r := range in.Others {
				got.Others = append(got.Others, r.Name)
			}
			slices.Sort(got.Others)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// ofImport is a request made with the token of an import.
func ofImport(r *fleet.ClusterRegistration) {
	r.Labels = map[string]string{fleet.LabelRegistrationToken: names.ImportToken("c1")}
}

func TestRequestAfterItsImport_IsDeleted(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "clusterregistrations"}, "r1")
	for name, test := range map[string]struct{ answer, want error }{
		"deletion succeeds":          {nil, nil},
		"request is deleted already": {missing, nil},
		"deletion fails: an error":   {errServer, errServer},
	} {
		t.Run(name, func(t *testing.T) {
			hub := start(t, request(ofImport))
			hub.Fail("delete ClusterRegistration ws/r1", test.answer)
			if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			expectRequests(t, hub, "delete ClusterRegistration ws/r1")
		})
	}
}

func TestRejectedRequest_IsReportedThoughItsRightsStay(t *testing.T) {
	marked := func(meta metav1.ObjectMeta) metav1.ObjectMeta {
		meta.Labels, meta.Annotations = map[string]string{fleet.LabelManaged: "true"}, map[string]string{
			fleet.AnnotationClusterRegistration: "r1", fleet.AnnotationClusterRegistrationNamespace: "ws",
		}
		return meta
	}
	reader := &rbacv1.RoleBinding{ObjectMeta: marked(metav1.ObjectMeta{Namespace: registration, Name: "r1-creds", UID: "u-b"})}
	for want, there := range map[string][]hubtest.Object{
		conditions.ReasonClientIDMissing: {request(func(r *fleet.ClusterRegistration) { r.Spec.ClientID = "" })},
		conditions.ReasonClusterManagedElsewhere: {request(), cluster(func(c *fleet.Cluster) {
			c.Labels = map[string]string{fleet.LabelClusterManagement: "other"}
		})},
	} {
		t.Run(want, func(t *testing.T) {
			hub := start(t, append(there, asked(), reader)...)
			hub.Fail("delete RoleBinding "+registration+"/r1-creds", errServer)
			if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
				t.Errorf("error %v, want the server's", err)
			}
			hub.Sync()
			if got := reasonOf(t, hub, "r1"); got != want {
				t.Errorf("reason %q", got)
			}
		})
	}
}

// A request of a workspace that was created again can arrive before the watch of namespaces reports that.
func TestRequestOfRecreatedWorkspace_IsCheckedAgain(t *testing.T) {
	deleting := metav1.NewTime(time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC))
	hub := start(t, request(), asked(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", DeletionTimestamp: &deleting}})
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in 15s")
	hub.Put(request(func(r *fleet.ClusterRegistration) { r.DeletionTimestamp = &deleting }))
	handle(t, hub)
	hubtest.ExpectWoken(t, hub) // its deletion is an event
}
