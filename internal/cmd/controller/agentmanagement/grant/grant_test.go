package grant

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestUnknownClient_GetsACluster(t *testing.T) {
	hub := start(t, request(), asked())
	handle(t, hub)
	const made = "cluster-948fe603f61d"
	expectRequests(t, hub, "create Cluster ws/"+made, // and the agent can wait for its answer by a watch
		"create Role "+registration+"/r1-creds", "create RoleBinding "+registration+"/r1-creds")
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in 10s")
	got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", made)
	wantLabels := map[string]string{"env": "dev", fleet.LabelCluster: made, fleet.LabelTokenUID: "u-t1"}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" || got.Spec.ClientID != "client" {
		t.Errorf("client ID %q, labels (-want +got):\n%s", got.Spec.ClientID, diff)
	}

	handle(t, hub) // the caches lag: nothing is made twice
	expectRequests(t, hub)

	catchUp(t, hub)
	handle(t, hub)
	expectRequests(t, hub, "update ClusterRegistration ws/r1")
	expectNothingHandedOut(t, hub)
}

// Another client has created the Cluster, and the cache is behind. Its event enqueues the request.
func TestExistingCluster_IsNotChanged(t *testing.T) {
	hub := start(t, request(), asked())
	const made = "cluster-948fe603f61d"
	hub.Have(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: made, Labels: map[string]string{"mine": "yes"}}})
	handle(t, hub)
	expectRequests(t, hub, "create Cluster ws/"+made, "create Role "+registration+"/r1-creds", "create RoleBinding "+registration+"/r1-creds")
	if got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", made); got.Labels["mine"] != "yes" || got.Spec.ClientID != "" {
		t.Errorf("it was changed: labels %v, client ID %q", got.Labels, got.Spec.ClientID)
	}
}

// Most requests are granted before a user could read what they wait for, so short waits are not written.
func TestSlowGrant_ReportsWhatItWaitsFor(t *testing.T) {
	without := cluster(func(c *fleet.Cluster) { c.Status.Namespace = "" })
	tests := map[string]struct {
		there           []hubtest.Object
		of              string
		reason, message string
	}{
		"the Cluster":   {nil, "", conditions.ReasonAwaitingCluster, "the Cluster of this agent is being created"},
		"its namespace": {[]hubtest.Object{without}, "c1", conditions.ReasonAwaitingNamespace, "the Cluster's namespace is being created"},
		"the rights":    {[]hubtest.Object{cluster()}, "c1", conditions.ReasonAwaitingRights, "the account of this agent is being created"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, append(test.there, request(), asked())...)
			handle(t, hub)
			if got := current(t, hub).Status; len(got.Conditions) > 0 {
				t.Errorf("said at once: %+v", got)
			}
			hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in 10s")
			hub.Pass(noticeable)
			handle(t, hub)
			expectStatus(t, hub, test.of, false, genericcondition.GenericCondition{Status: "False", Reason: test.reason, Message: test.message})
			hub.Put(current(t, hub))
			hub.Requests()
			hub.Woken()
			handle(t, hub)
			if slices.Contains(hub.Requests(), "update "+kindRequest+"/status ws/r1") {
				t.Error("said twice")
			}
			hubtest.ExpectWoken(t, hub)
		})
	}
}

func TestRequest_IsAnsweredInOrder(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hub := start(t, request(), cluster(seen(noon.Add(-time.Hour))), asked())
	handle(t, hub)
	requests := expectRequests(t, hub,
		"update ClusterRegistration ws/r1",
		"create ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1", "create Role ws/r1",
		"create RoleBinding ws/r1", "create RoleBinding cluster-ws-c1-552959a9c359/r1",
		"create Role "+registration+"/r1-creds", "create RoleBinding "+registration+"/r1-creds")
	hubtest.ExpectOrder(t, requests, "create Role ws/r1", "create RoleBinding ws/r1", "update ClusterRegistration ws/r1")
	hubtest.ExpectOrder(t, requests, "create Role "+registration+"/r1-creds", "create RoleBinding "+registration+"/r1-creds")
	expectNothingHandedOut(t, hub)
	owner := []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "c1", UID: "u-c1"}}
	if diff := cmp.Diff(owner, current(t, hub).OwnerReferences); diff != "" {
		t.Errorf("owners of the request (-want +got):\n%s", diff)
	}
	if got := current(t, hub).Annotations[annotation.LastSeenAtGrant]; got != "2026-01-01T11:00:00Z" {
		t.Errorf("the heartbeat before the grant is noted as %q", got)
	}

	hub.Woken()
	catchUp(t, hub)
	handle(t, hub)
	order := []string{
		"mint cluster-ws-c1-552959a9c359/r1-u-r1 " + lifetime, "prove cluster-ws-c1-552959a9c359", "create Secret " + registration + "/" + credential,
		"update ClusterRegistration/status ws/r1",
	}
	hubtest.ExpectOrder(t, expectRequests(t, hub, order...), order...)
	expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
	expectCredential(t, hub)

	catchUp(t, hub)
	handle(t, hub)
	expectRequests(t, hub) // all is well
	hubtest.ExpectWoken(t, hub)
}

// A cache may have a Cluster that the hub no longer has, after it was restored from an older state. Who is owned by it
// is deleted.
func TestClusterOnlyInTheCache_DoesNotOwnTheRequest(t *testing.T) {
	hub := start(t, request(), asked())
	hub.See(cluster())
	gone := apierrors.NewNotFound(corev1.Resource("namespaces"), clusterNamespace)
	for _, rights := range []string{"ServiceAccount " + clusterNamespace + "/" + account, "RoleBinding " + clusterNamespace + "/r1"} {
		hub.Fail("create "+rights, gone)
	}
	for range 2 { // however often it is tried
		if err := hub.Handle(kindRequest, "ws/r1"); !apierrors.IsNotFound(err) {
			t.Fatalf("error %v, want %v", err, gone)
		}
		if got := current(t, hub); len(got.OwnerReferences) > 0 || len(got.Annotations) > 0 {
			t.Fatalf("owned by %v, annotated %v", got.OwnerReferences, got.Annotations)
		}
	}
	expectNothingHandedOut(t, hub)

	catchUp(t, hub) // the caches are filled anew
	hub.Requests()
	handle(t, hub)
	const made = "cluster-948fe603f61d"
	if got := hub.Requests(); !slices.Contains(got, "create Cluster ws/"+made) {
		t.Errorf("requests %q, want one for a Cluster", got)
	}
	real := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", made).DeepCopy()
	real.Status.Namespace = "cluster-ws-made"
	hub.Put(real)
	settle(t, hub, 3)
	if got := current(t, hub); len(got.OwnerReferences) != 1 || got.OwnerReferences[0].Name != made || !got.Status.Granted {
		t.Errorf("owned by %v, status %+v, want it granted for Cluster %s", got.OwnerReferences, got.Status, made)
	}
}

// The cache may still have a Cluster that no longer exists, and another controller may create its namespace again.
func TestClusterOfBeforeTheRestore_DoesNotOwnARequestOfAfterIt(t *testing.T) {
	hub := start(t, asked())
	hub.Put(request(func(r *fleet.ClusterRegistration) { r.CreationTimestamp = metav1.NewTime(hub.Now()) }))
	before := cluster(func(c *fleet.Cluster) { c.CreationTimestamp = metav1.NewTime(hub.Now().Add(-time.Minute)) })
	hub.See(before)
	another := cluster(func(c *fleet.Cluster) { c.UID, c.CreationTimestamp = "u-another", before.CreationTimestamp })
	expectUnowned := func(why string) {
		t.Helper()
		if err := hub.Handle(kindRequest, "ws/r1"); err == nil || !strings.Contains(err.Error(), why) {
			t.Fatalf("error %v, want %q", err, why)
		}
		if got := current(t, hub); len(got.OwnerReferences) > 0 {
			t.Fatalf("owned by %v", got.OwnerReferences)
		}
		expectNothingHandedOut(t, hub)
	}
	expectUnowned("Cluster ws/c1 with UID u-c1 does not exist")
	hub.Put(another)
	hub.See(before)
	expectUnowned("Cluster ws/c1 with UID u-c1 does not exist")
	hub.Fail("get Cluster ws/c1", errServer)
	expectUnowned(errServer.Error())

	hub.Fail("get Cluster ws/c1", nil)
	catchUp(t, hub)
	settle(t, hub, 3)
	if got := current(t, hub); len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != another.UID || !got.Status.Granted {
		t.Errorf("owned by %v, status %+v, want it granted for the Cluster that exists", got.OwnerReferences, got.Status)
	}
}

func TestNoCredential_BeforeTheRequestIsOwned(t *testing.T) {
	hub := start(t, request(), cluster(), asked())
	const own = "update ClusterRegistration ws/r1"
	hub.Fail(own, errServer)
	for range 3 {
		if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
			t.Fatalf("error %v, want the server's", err)
		}
		catchUp(t, hub) // the rights are there
	}
	hub.Requests()
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
		t.Fatalf("error %v, want the server's", err)
	}
	expectRequests(t, hub, own)
	expectNothingHandedOut(t, hub)
	hub.Fail(own, nil)
	settle(t, hub, 1)
	expectCredential(t, hub)
}

func expectCredential(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	sa := hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account)
	found := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential)
	got, err := protocol.ParseCredential(found.Data)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.Token, ".") || got.Token == "" {
		t.Errorf("token %q", got.Token)
	}
	parsed, err := protocol.ParseAccountToken(got.Token)
	if err != nil || parsed.AccountUID != string(sa.UID) {
		t.Errorf("the token is of account %q (%v), want %q", parsed.AccountUID, err, sa.UID)
	}
	got.Token = ""
	want := protocol.Credential{DeploymentNamespace: clusterNamespace, ClusterNamespace: "ws", ClusterName: "c1", SystemNamespace: system}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("credential (-want +got):\n%s", diff)
	}
	marks := map[string]string{fleet.AnnotationClusterRegistration: "r1", fleet.AnnotationClusterRegistrationNamespace: "ws"}
	if diff := cmp.Diff(marks, found.Annotations); diff != "" || found.Labels[fleet.LabelCluster] != "c1" || found.Type != protocol.SecretTypeCredential {
		t.Errorf("type %s, labels %v, annotations (-want +got):\n%s", found.Type, found.Labels, diff)
	}
	role := hubtest.MustGet[*rbacv1.Role](t, hub, registration, "r1-creds")
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{credential}, Verbs: []string{"get", "watch"}}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	binding := hubtest.MustGet[*rbacv1.RoleBinding](t, hub, registration, "r1-creds")
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ws", Name: "t1-u-t1"}}
	if diff := cmp.Diff(subjects, binding.Subjects); diff != "" || binding.RoleRef.Name != "r1-creds" || binding.RoleRef.Kind != "Role" {
		t.Errorf("role %+v, subjects (-want +got):\n%s", binding.RoleRef, diff)
	}
}

func TestCredential_IsReadableByOneToken(t *testing.T) {
	imported := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "import-token-c1", UID: "u-i"}}
	subject := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ws", Name: name}}
	}
	tests := map[string]struct {
		tokens []hubtest.Object
		want   []rbacv1.Subject
		reason string
	}{
		"request names a token: its account":                                 {[]hubtest.Object{asked()}, subject("t1-u-t1"), ""},
		"request names a token, Cluster is imported: its account":            {[]hubtest.Object{asked(), imported}, subject("t1-u-t1"), ""},
		"named token is deleted, Cluster is imported: account of the import": {[]hubtest.Object{imported}, subject("import-token-c1-u-i"), ""},
		"named token is deleted: granted without a reader":                   {nil, nil, conditions.ReasonTokenUnknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, append(test.tokens, request(), cluster())...)
			settle(t, hub, 2)
			got := current(t, hub)
			if condition := conditions.Get(got.Status.Conditions, conditions.Granted); !got.Status.Granted || condition == nil || condition.Reason != test.reason {
				t.Errorf("granted %v, condition %+v, want reason %q", got.Status.Granted, condition, test.reason)
			}
			var readers []rbacv1.Subject
			if binding := hubtest.Get[*rbacv1.RoleBinding](hub, registration, "r1-creds"); binding != nil {
				readers = binding.Subjects
			}
			if diff := cmp.Diff(test.want, readers); diff != "" {
				t.Errorf("readers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoCredential_BeforeItsTokenWorks(t *testing.T) {
	hub := start(t, request(), cluster(), asked())
	settle(t, hub, 1)
	hub.Requests()
	hub.Woken()
	hub.RefuseTokens(4)
	for i, delay := range []string{"25ms", "25ms", "2s", "2s"} {
		want := []string{"mint cluster-ws-c1-552959a9c359/r1-u-r1 " + lifetime, "prove cluster-ws-c1-552959a9c359"}
		if i == 2 { // by now this is no matter of a moment
			hub.Pass(notInForceSoon + time.Second)
			want = append(want, "update "+kindRequest+"/status ws/r1")
		}
		handle(t, hub)
		expectRequests(t, hub, want...)
		hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in "+delay)
		expectNothingHandedOut(t, hub)
		hub.Put(current(t, hub))
	}
	expectStatus(t, hub, "c1", false, genericcondition.GenericCondition{Status: "False", Reason: conditions.ReasonAwaitingRights, Message: "the account of this agent is being created"})
	handle(t, hub)
	expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
	expectCredential(t, hub)
}

func TestEmptyTokenSecret_IsAwaited(t *testing.T) {
	hub := start(t, request(), cluster(), asked())
	hub.CapTokens(24 * time.Hour)
	settle(t, hub, 1)
	hub.Requests()
	hub.Woken()
	handle(t, hub)
	expectRequests(t, hub, "mint cluster-ws-c1-552959a9c359/r1-u-r1 "+lifetime, "get ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1",
		"get Secret cluster-ws-c1-552959a9c359/r1-u-r1-token", "create Secret cluster-ws-c1-552959a9c359/r1-u-r1-token")
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in 500ms")
	expectNothingHandedOut(t, hub)

	filled := hubtest.MustGet[*corev1.Secret](t, hub, clusterNamespace, "r1-u-r1-token")
	uid := string(hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account).UID)
	filled.Annotations[corev1.ServiceAccountUIDKey] = uid
	filled.Data = map[string][]byte{"token": []byte(hubtest.Token(uid, time.Time{}))}
	hub.Have(filled)
	handle(t, hub)
	expectCredential(t, hub)
}

func TestInterruptedAnswer_IsCompleted(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: registration, Name: "r1-creds", Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{fleet.AnnotationClusterRegistration: "r1", fleet.AnnotationClusterRegistrationNamespace: "ws"},
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "r1-creds"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ws", Name: "old"}},
	}
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: credential}, Type: protocol.SecretTypeCredential}
	tests := map[string]struct {
		left hubtest.Object
		want []string
	}{
		"Role with other rules: restored":            {role, []string{"patch Role " + registration + "/r1-creds", "create RoleBinding " + registration + "/r1-creds"}},
		"RoleBinding with another subject: restored": {binding, []string{"create Role " + registration + "/r1-creds", "patch RoleBinding " + registration + "/r1-creds"}},
		"credential without a token: written": {empty, []string{
			"create Secret " + registration + "/" + credential, "get Secret " + registration + "/" + credential, "update Secret " + registration + "/" + credential,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, test.left, request(), cluster(), asked())
			settle(t, hub, 2)
			hubtest.ExpectOrder(t, hub.Requests(), test.want...)
			expectCredential(t, hub)
			settle(t, hub, 1)
			expectRequests(t, hub)
		})
	}
}

func TestRejectedRequest_IsReportedOnce(t *testing.T) {
	tests := map[string]struct {
		there  []hubtest.Object
		reason string
	}{
		"no client ID": {
			[]hubtest.Object{request(func(r *fleet.ClusterRegistration) { r.Spec.ClientID = "" })}, conditions.ReasonClientIDMissing},
		"Cluster of the derived name has another client ID": {
			[]hubtest.Object{request(), cluster(func(c *fleet.Cluster) { c.Name, c.Spec.ClientID = "cluster-948fe603f61d", "another" })}, conditions.ReasonClientIDTaken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, test.there...)
			handle(t, hub)
			expectRequests(t, hub, "update ClusterRegistration/status ws/r1")
			got := conditions.Get(current(t, hub).Status.Conditions, conditions.Granted)
			if got.Status != "False" || got.Reason != test.reason || got.Message == "" {
				t.Errorf("condition %+v, want reason %s and what to do", got, test.reason)
			}
			handleAgain := current(t, hub)
			hub.Put(handleAgain)
			hub.Requests()
			handle(t, hub)
			expectRequests(t, hub)
		})
	}
}

func TestRequestOfAnotherManager_IsIgnored(t *testing.T) {
	hub := start(t, request(func(r *fleet.ClusterRegistration) { r.Labels[fleet.LabelClusterManagement] = "other" }), cluster(), asked())
	handle(t, hub)
	expectRequests(t, hub)
}

// A tenant can label its own Cluster, and its agent can write the status. Neither grants anything.
func TestClusterOfAnotherManager_GrantsNothing(t *testing.T) {
	labelled := func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "other"} }
	for name, namespace := range map[string]string{"its own namespace": clusterNamespace, "a namespace of another tenant": "cluster-ws2-c1", "none": ""} {
		t.Run("status names "+name, func(t *testing.T) {
			hub := start(t, request(), cluster(labelled, func(c *fleet.Cluster) { c.Status.Namespace = namespace }), asked())
			handle(t, hub)
			expectRequests(t, hub, "update ClusterRegistration/status ws/r1")
			got := current(t, hub)
			said := conditions.Get(got.Status.Conditions, conditions.Granted)
			if got.Status.Granted || said.Status != "False" || said.Reason != "ClusterManagedElsewhere" ||
				!strings.Contains(said.Message, "kubectl -n ws label clusters.fleet.cattle.io c1 fleet.cattle.io/cluster-management-") {
				t.Errorf("granted %v, condition %+v", got.Status.Granted, said)
			}
			hub.Put(got)
			hub.Put(cluster())
			settle(t, hub, 3)
			if !current(t, hub).Status.Granted {
				t.Error("without the label the request is not granted")
			}
		})
	}
}

// What was granted in the Cluster's own namespace goes on when its Cluster gets another manager; what was granted
// elsewhere is revoked.
func TestClusterGetsAnotherManager_KeepsOnlyItsOwn(t *testing.T) {
	labelled := func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "other"} }
	t.Run("its account is there: it stays, and nothing is healed", func(t *testing.T) {
		hub := grantedHub(t)
		hub.Put(cluster(labelled))
		hub.Remove(hubtest.MustGet[*rbacv1.Role](t, hub, "ws", "r1"))
		hub.Requests()
		handle(t, hub)
		expectRequests(t, hub, "update ClusterRegistration/status ws/r1")
		got := current(t, hub)
		if said := conditions.Get(got.Status.Conditions, conditions.Granted); !got.Status.Granted || said.Reason != "ClusterManagedElsewhere" {
			t.Errorf("granted %v, condition %+v", got.Status.Granted, said)
		}
	})
	t.Run("its account is elsewhere: it is revoked", func(t *testing.T) {
		r := request(func(r *fleet.ClusterRegistration) { r.Status.Granted, r.Status.ClusterName = true, "c1" })
		elsewhere := &corev1.ServiceAccount{ObjectMeta: child("cluster-ws2-c1", account)}
		hub := start(t, r, cluster(labelled), asked(), elsewhere)
		handle(t, hub)
		expectRequests(t, hub, "delete ServiceAccount cluster-ws2-c1/"+account, "update ClusterRegistration/status ws/r1")
	})
}

// Names that are too long are cut: a tenant can choose a Cluster whose computed namespace is that of another Cluster.
func TestNamespaceOfAnotherCluster_GrantsNothing(t *testing.T) {
	long := func(c *fleet.Cluster) {
		c.Name = strings.Repeat("a-name-that-is-cut-", 4)
		c.Status.Namespace = names.ClusterNamespace(c.Namespace, c.Name)
	}
	victims := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: cluster(long).Status.Namespace, Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{fleet.AnnotationCluster: "victim", fleet.AnnotationClusterNamespace: "ws2"},
	}}
	hub := start(t, request(), cluster(long), asked(), victims)
	handle(t, hub)
	expectRequests(t, hub, "update ClusterRegistration/status ws/r1")
	if said := conditions.Get(current(t, hub).Status.Conditions, conditions.Granted); said == nil || said.Reason != "NamespaceTaken" {
		t.Errorf("condition %+v", said)
	}
}

func TestFirstHeartbeat_SupersedesOlderRequests(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	earlier := func(r *fleet.ClusterRegistration) { r.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour)) }
	old := request(named("r0"), earlier)
	stranger := request(named("r9"), earlier, func(r *fleet.ClusterRegistration) { r.Spec.ClientID = "another" })
	before := noon.Add(-time.Minute)
	hub := start(t, request(), old, stranger, cluster(seen(before)), asked())
	settle(t, hub, 3)
	if hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r0") == nil {
		t.Fatal("the older request went before the new credential was used")
	}
	hub.Requests()

	hub.Put(cluster(seen(before))) // the old agent's last heartbeat, seen again
	settle(t, hub, 1)
	expectRequests(t, hub)

	hub.Put(cluster(seen(noon.Add(time.Second))))
	hub.Fail("delete "+kindRequest+" ws/r0", errServer)
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
		t.Errorf("error %v, want the server's", err)
	}
	hub.Fail("delete "+kindRequest+" ws/r0", nil)
	hub.Requests()
	settle(t, hub, 1)
	expectRequests(t, hub, "get Cluster ws/c1", "delete "+kindRequest+" ws/r0")
	if hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r9") == nil {
		t.Error("another client's request was deleted")
	}
	settle(t, hub, 1)
	expectRequests(t, hub)
}

func TestGrantedRequest_IsRestored(t *testing.T) {
	tests := map[string]struct {
		harm func(*testing.T, *hubtest.Hub)
		want []string
	}{
		"deleted RoleBinding: created again": {
			harm: func(_ *testing.T, h *hubtest.Hub) {
				h.Remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: clusterNamespace, Name: "r1", Labels: map[string]string{fleet.LabelManaged: "true"}}})
			},
			want: []string{"create RoleBinding cluster-ws-c1-552959a9c359/r1"},
		},
		"widened Role: restored": {
			harm: func(_ *testing.T, h *hubtest.Hub) {
				role := hubtest.Get[*rbacv1.Role](h, "ws", "r1")
				role.Rules[0].ResourceNames = nil
				h.Put(role)
			},
			want: []string{"patch Role ws/r1"},
		},
		"recreated account: credential is replaced": {
			harm: func(_ *testing.T, h *hubtest.Hub) {
				sa := hubtest.Get[*corev1.ServiceAccount](h, clusterNamespace, account)
				sa.UID = "another"
				h.Put(sa)
			},
			want: []string{
				"mint cluster-ws-c1-552959a9c359/r1-u-r1 " + lifetime, "prove cluster-ws-c1-552959a9c359",
				"create Secret " + registration + "/" + credential, "get Secret " + registration + "/" + credential, "update Secret " + registration + "/" + credential,
			},
		},
		"deleted reader of a valid credential: created again": {
			harm: func(_ *testing.T, h *hubtest.Hub) {
				h.Remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "r1-creds", Labels: map[string]string{fleet.LabelManaged: "true"}}})
			},
			want: []string{"create RoleBinding " + registration + "/r1-creds"},
		},
		"deleted credential before its expiry: created again": {
			harm: func(_ *testing.T, h *hubtest.Hub) {
				h.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: credential}, Type: protocol.SecretTypeCredential})
				h.Remove(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "r1-creds", Labels: map[string]string{fleet.LabelManaged: "true"}}})
				h.Remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "r1-creds", Labels: map[string]string{fleet.LabelManaged: "true"}}})
			},
			want: []string{
				"mint cluster-ws-c1-552959a9c359/r1-u-r1 " + lifetime, "prove cluster-ws-c1-552959a9c359", "create Role " + registration + "/r1-creds",
				"create RoleBinding " + registration + "/r1-creds", "create Secret " + registration + "/" + credential,
			},
		},
		"deleted RoleBinding, credential has expired: only the RoleBinding is created": {
			harm: func(_ *testing.T, h *hubtest.Hub) {
				h.Pass(grant.CredentialLife + time.Second)
				h.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: credential}, Type: protocol.SecretTypeCredential})
				h.Remove(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "r1-creds", Labels: map[string]string{fleet.LabelManaged: "true"}}})
				h.Remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "r1-creds", Labels: map[string]string{fleet.LabelManaged: "true"}}})
				h.Remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: clusterNamespace, Name: "r1", Labels: map[string]string{fleet.LabelManaged: "true"}}})
			},
			want: []string{"create RoleBinding cluster-ws-c1-552959a9c359/r1"},
		},
		"deleted credential after its expiry: stays deleted": {
			harm: func(_ *testing.T, h *hubtest.Hub) {
				h.Pass(grant.CredentialLife + time.Second)
				h.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: credential}, Type: protocol.SecretTypeCredential})
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := grantedHub(t)
			test.harm(t, hub)
			settle(t, hub, 1)
			expectRequests(t, hub, test.want...)
			settle(t, hub, 1)
			hub.Requests()
			settle(t, hub, 1)
			expectRequests(t, hub)
			expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
		})
	}
}

func TestFailedStep_IsRetried(t *testing.T) {
	tests := map[string]struct {
		there   []hubtest.Object
		settled int
		fail    string
		// never must not have been tried.
		never string
	}{
		"creating the Cluster":   {nil, 0, "create Cluster ws/cluster-948fe603f61d", "update"},
		"owning the request":     {[]hubtest.Object{cluster()}, 0, "update " + kindRequest + " ws/r1", "update " + kindRequest + "/status"},
		"creating the account":   {[]hubtest.Object{cluster()}, 0, "create ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1", "update " + kindRequest + "/status"},
		"requesting the token":   {[]hubtest.Object{cluster()}, 1, "mint cluster-ws-c1-552959a9c359/r1-u-r1 " + lifetime, "create"},
		"proving the token":      {[]hubtest.Object{cluster()}, 1, "prove cluster-ws-c1-552959a9c359", "create"},
		"creating its reader":    {[]hubtest.Object{cluster()}, 0, "create RoleBinding " + registration + "/r1-creds", "update " + kindRequest + "/status"},
		"writing the credential": {[]hubtest.Object{cluster()}, 1, "create Secret " + registration + "/" + credential, "update " + kindRequest + "/status"},
		"writing the status":     {[]hubtest.Object{cluster()}, 1, "update " + kindRequest + "/status ws/r1", "never"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, append(test.there, request(), asked())...)
			settle(t, hub, test.settled)
			hub.Requests()
			hub.Fail(test.fail, errServer)
			err := hub.Handle(kindRequest, "ws/r1")
			if err == nil || test.fail != "prove cluster-ws-c1-552959a9c359" && !errors.Is(err, errServer) {
				t.Errorf("error %v, want the server's", err)
			}
			for _, request := range hub.Requests() {
				if strings.HasPrefix(request, test.never) {
					t.Errorf("went on to %s", request)
				}
			}
			hub.Fail(test.fail, nil)
			settle(t, hub, 2)
			if test.there != nil {
				expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
			}
		})
	}
}

func TestGrantedCondition_OfEachStage(t *testing.T) {
	got := map[grant.Stage]string{}
	for _, stage := range []grant.Stage{
		grant.Rejected, grant.AwaitingCluster, grant.AwaitingNamespace,
		grant.AwaitingRights, grant.Minting, grant.Done,
	} {
		out := grant.Outcome{Stage: stage}
		if stage == grant.Rejected {
			out.Reason, out.Message = "Given", "said"
		}
		condition := grantedCondition("ws", out)
		got[stage] = string(condition.Status) + " " + condition.Reason
	}
	want := map[grant.Stage]string{
		grant.Rejected: "False Given", grant.AwaitingCluster: "False AwaitingCluster", grant.AwaitingNamespace: "False AwaitingNamespace",
		grant.AwaitingRights: "False AwaitingRights", grant.Minting: "True ", grant.Done: "True ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	unreadable := grantedCondition("ws", grant.Outcome{Stage: grant.Done, ClusterName: "east", Unreadable: true})
	if unreadable.Status != "False" || unreadable.Reason != conditions.ReasonTokenUnknown || !strings.Contains(unreadable.Message, "run fleet repair east -n ws") {
		t.Errorf("condition of a credential that the agent cannot read: %+v", unreadable)
	}
}

// Both requests name the same Secret. The older request is answered.
func TestSecondRequestForACredential_IsRejected(t *testing.T) {
	tests := map[string]func(*fleet.ClusterRegistration){
		"same workspace":    func(r *fleet.ClusterRegistration) { r.Name, r.UID = "r2", "u-r2" },
		"another workspace": func(r *fleet.ClusterRegistration) { r.Namespace, r.UID = "ws2", "u-r2" },
	}
	for name, modify := range tests {
		t.Run(name, func(t *testing.T) {
			second := request(modify)
			hub := grantedHub(t, second,
				cluster(func(c *fleet.Cluster) { c.Namespace, c.Status.Namespace = "ws2", "cluster-ws2-c1" }),
				&fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws2", Name: "t1", UID: "u-t2"}})
			before := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential)
			for range 4 {
				if err := hub.Handle(kindRequest, second.Namespace+"/"+second.Name); err != nil {
					t.Fatal(err)
				}
				catchUp(t, hub)
				handle(t, hub)
				catchUp(t, hub)
			}
			after := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the first one's credential (-before +after):\n%s", diff)
			}
			for _, line := range hub.Requests() {
				if strings.HasPrefix(line, "mint ") || strings.Contains(line, registration) {
					t.Errorf("the second one caused %s", line)
				}
			}
			got := hubtest.MustGet[*fleet.ClusterRegistration](t, hub, second.Namespace, second.Name)
			condition := conditions.Get(got.Status.Conditions, conditions.Granted)
			if got.Status.Granted || condition == nil || condition.Reason != conditions.ReasonCredentialTaken {
				t.Errorf("granted %v, condition %+v", got.Status.Granted, condition)
			}
		})
	}
}

// A client that reads ClusterRegistrations copies one, and names its own token. If it ever could read the Secret of the
// answer, it could read the answer to the original.
func TestCopyOfAnUnansweredRequest_IsNeverReadable(t *testing.T) {
	const original, copied = "ws/r1", "ws/r2"
	for name, test := range map[string]struct {
		order  []string
		modify func(*fleet.ClusterRegistration)
	}{
		"original is processed first": {[]string{original, copied}, func(*fleet.ClusterRegistration) {}},
		"copy is processed first":     {[]string{copied, original}, func(*fleet.ClusterRegistration) {}},
		"values are divided differently": {[]string{copied, original}, func(r *fleet.ClusterRegistration) {
			r.Spec.ClientID, r.Spec.ClientRandom = "clien", "trandom"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			second := request(func(r *fleet.ClusterRegistration) {
				r.Name, r.UID, r.Labels = "r2", "u-r2", map[string]string{fleet.LabelRegistrationToken: "t2"}
			}, test.modify)
			hub := start(t, request(), second, cluster(), asked(), asked2())
			for range 4 {
				for _, key := range test.order {
					if err := hub.Handle(kindRequest, key); err != nil {
						t.Fatal(err)
					}
				}
				catchUp(t, hub)
			}
			for _, line := range hub.Requests() {
				if strings.HasPrefix(line, "create") && strings.Contains(line, "r2") {
					t.Errorf("the copy caused %s", line)
				}
			}
			expectCredential(t, hub)
			expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
			got := hubtest.MustGet[*fleet.ClusterRegistration](t, hub, "ws", "r2")
			if condition := conditions.Get(got.Status.Conditions, conditions.Granted); condition == nil || condition.Reason != conditions.ReasonCredentialTaken {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}

func asked2() *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t2", UID: "u-t2"}}
}

// The cache does not show the answer to the other request yet.
func TestAnswerToAnotherRequest_IsNotOverwritten(t *testing.T) {
	hub := start(t, request(), cluster(), asked())
	settle(t, hub, 1)
	other := request(func(r *fleet.ClusterRegistration) { r.Name = "r0" })
	hub.Have(grant.CredentialSecret(other, registration, protocol.Credential{ClusterName: "c1"}))
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errAnswersAnother) {
		t.Fatalf("error %v, want %v", err, errAnswersAnother)
	}
	catchUp(t, hub)
	handle(t, hub)
	if hubtest.Get[*rbacv1.Role](hub, registration, "r1-creds") != nil || hubtest.Get[*rbacv1.RoleBinding](hub, registration, "r1-creds") != nil {
		t.Error("the answer to the other request is readable")
	}
}
