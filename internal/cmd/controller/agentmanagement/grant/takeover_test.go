package grant

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// live is the registration of the agent that Cluster ws/c1 has; it was made with token t0.
func live() *fleet.ClusterRegistration {
	return request(named("r0"), func(r *fleet.ClusterRegistration) {
		r.CreationTimestamp = metav1.NewTime(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC))
		r.Labels[fleet.LabelRegistrationToken] = "t0"
		r.Annotations = map[string]string{annotation.LastSeenAtGrant: ""}
		r.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "c1", UID: "u-c1"}}
		r.Status = fleet.ClusterRegistrationStatus{ClusterName: "c1", Granted: true}
	})
}

func served(modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	return cluster(append([]func(*fleet.Cluster){seen(time.Date(2026, 1, 1, 11, 59, 0, 0, time.UTC))}, modifiers...)...)
}

// pendingHub is a hub on which ws/r1 asks, with another token, for what the agent of Cluster ws/c1 has.
func pendingHub(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := start(t, append([]hubtest.Object{request(), live(), served(), asked()}, objects...)...)
	handle(t, hub)
	hub.Put(current(t, hub))
	return hub
}

const takeoverMessage = "another agent is registered for this Cluster, and this request names another token or none: to replace that agent, even if it is silent, run `fleet confirm-takeover c1 r1 -n ws`, or register with that agent's token; otherwise this request is deleted 40 minutes after its creation"

func TestTakeover_WaitsWithoutFurtherRequests(t *testing.T) {
	hub := pendingHub(t)
	expectRequests(t, hub, "update ClusterRegistration/status ws/r1")
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in 40m0s")
	expectStatus(t, hub, "c1", false, genericcondition.GenericCondition{Status: "False", Reason: conditions.ReasonTakeoverPending, Message: takeoverMessage})
	expectEvents(t, hub,
		"Warning TakeoverPending "+takeoverMessage,
		"Warning TakeoverPending registration r1 asks to replace this Cluster's agent and does not prove that it is the same agent: to allow it, run `fleet confirm-takeover c1 r1 -n ws`")
	expectCounted(t, hub, `fleet_registrations_total{outcome="rejected"} 1`)

	for range 3 { // whatever wakes it
		hub.Put(served(seen(hub.Now())))
		handle(t, hub)
	}
	expectRequests(t, hub)
	expectEvents(t, hub)
	expectNothingHandedOut(t, hub)
	if hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r0") == nil {
		t.Error("the registration of the agent at work is gone")
	}
}

func TestTakeover_IsGranted(t *testing.T) {
	tests := map[string]func(*hubtest.Hub){
		"operator confirms it": func(h *hubtest.Hub) {
			h.Put(served(func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.ConfirmTakeover: "r1"} }))
		},
		"registration of the agent is deleted": func(h *hubtest.Hub) { h.Remove(live()) },
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			hub := pendingHub(t)
			hub.Put(served(seen(hub.Now()))) // the agent at work goes on
			happens(hub)
			settle(t, hub, 3)
			expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
			expectCredential(t, hub)
			want := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Status.Agent.LastSeen.UTC().Format(time.RFC3339)
			if got := current(t, hub).Annotations[annotation.LastSeenAtGrant]; got != want {
				t.Errorf("the heartbeat before the grant is noted as %q, want %q", got, want)
			}
			if slices.Contains(hub.Requests(), "delete "+kindRequest+" ws/r0") {
				t.Error("the registration of the agent at work went before the other's was used")
			}
		})
	}
}

func TestUnconfirmedTakeover_IsDeleted(t *testing.T) {
	hub := pendingHub(t)
	hub.Requests()
	hub.Pass(grant.CredentialLife)
	handle(t, hub)
	expectRequests(t, hub, "delete ClusterRegistration ws/r1")
}

func TestTakeover_IsDeletedWithItsCluster(t *testing.T) {
	hub := pendingHub(t)
	hub.Requests()
	hub.Remove(served())
	handle(t, hub)
	expectRequests(t, hub, "delete ClusterRegistration ws/r1") // and no Cluster is made for it
}

func TestTakeoverAfterRights_IsRevoked(t *testing.T) {
	hub := start(t, request(), cluster(), asked())
	settle(t, hub, 1)
	hub.Requests()
	hub.Put(ownBinding(), live(), served()) // another agent of the client was faster
	handle(t, hub)
	expectRequests(t, hub, append(slices.DeleteFunc(all(), func(r string) bool { return r == "delete Secret "+registration+"/"+credential }), "update ClusterRegistration/status ws/r1")...)
	catchUp(t, hub)
	handle(t, hub)
	expectRequests(t, hub)
}

func TestRecreatedToken_DoesNotTakeOver(t *testing.T) {
	hub := start(t, request(named("r0")), cluster(), asked())
	if err := hub.Handle(kindRequest, "ws/r0"); err != nil {
		t.Fatal(err)
	}
	catchUp(t, hub)
	if err := hub.Handle(kindRequest, "ws/r0"); err != nil {
		t.Fatal(err)
	}
	catchUp(t, hub)
	first := hubtest.MustGet[*fleet.ClusterRegistration](t, hub, "ws", "r0")
	if got := first.Annotations[annotation.TokenUIDAtGrant]; !first.Status.Granted || got != "u-t1" {
		t.Fatalf("granted %t with token UID %q, want true and u-t1", first.Status.Granted, got)
	}
	recreated := asked()
	recreated.UID = "u-t1-again"
	hub.Put(served(seen(hub.Now().Add(time.Second))), recreated, request())
	handle(t, hub)
	expectStatus(t, hub, "c1", false, genericcondition.GenericCondition{Status: "False", Reason: conditions.ReasonTakeoverPending, Message: takeoverMessage})
	expectNothingHandedOut(t, hub)
}

func TestTakeover_FailedStatusUpdateIsRetried(t *testing.T) {
	hub := start(t, request(), live(), served(), asked())
	hub.Fail("update ClusterRegistration/status ws/r1", errServer)
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
		t.Errorf("error %v, want the server's", err)
	}
	expectEvents(t, hub)
}

// spoke says with which account the Cluster's last heartbeat was sent.
func spoke(accountUID string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "fleet-agent:" + accountUID, Operation: "Update", Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:agent":{"f:lastSeen":{}}}}`),
		}}
	}
}

func TestHeartbeatAccount_DecidesWhichRequestIsDeleted(t *testing.T) {
	older := func() *fleet.ClusterRegistration {
		r := live()
		r.Labels[fleet.LabelRegistrationToken] = "t1"
		r.Annotations[annotation.TokenUIDAtGrant] = "u-t1"
		return r
	}
	tests := map[string]struct {
		spoke func(*hubtest.Hub) string
		later time.Duration
		want  []string
	}{
		"heartbeat of the new account: the older request is deleted": {
			spoke: func(h *hubtest.Hub) string {
				return string(hubtest.Get[*corev1.ServiceAccount](h, clusterNamespace, account).UID)
			},
			want: []string{"get Cluster ws/c1", "delete ClusterRegistration ws/r0"},
		},
		"heartbeat of the older account: none is deleted": {
			spoke: func(*hubtest.Hub) string { return "of r0" }, want: []string{"get Cluster ws/c1"},
		},
		"heartbeat of the older account, new credential expired unused: the new request is deleted": {
			spoke: func(*hubtest.Hub) string { return "of r0" }, later: grant.CredentialLife + time.Second,
			want: []string{"get Cluster ws/c1", "delete ClusterRegistration ws/r1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, request(), older(), served(), asked())
			settle(t, hub, 2)
			hub.Requests()
			if test.later > 0 {
				hub.Pass(test.later)
				hub.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: credential}, Type: protocol.SecretTypeCredential})
			}
			hub.Put(served(seen(hub.Now().Add(time.Second)), spoke(test.spoke(hub))))
			handle(t, hub)
			expectRequests(t, hub, test.want...)
		})
	}
	t.Run("Cluster cannot be read: retried", func(t *testing.T) {
		hub := start(t, request(), older(), served(), asked())
		settle(t, hub, 2)
		hub.Put(served(seen(hub.Now().Add(time.Second))))
		hub.Fail("get Cluster ws/c1", errServer)
		if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
			t.Errorf("error %v, want the server's", err)
		}
		if hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r0") == nil {
			t.Error("the older registration went")
		}
	})
}

func TestDeletedAccount_IsReportedAndRecreated(t *testing.T) {
	const message = "the agent's ServiceAccount was deleted and created again, so a credential that the agent has fetched is no longer valid. An imported agent and an agent with a recovery key register again by themselves. For any other agent, run: fleet repair c1 -n ws"
	gone := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clusterNamespace, Name: account, Labels: map[string]string{fleet.LabelManaged: "true"}}}
	told := genericcondition.GenericCondition{Status: "False", Reason: conditions.ReasonAccountReplaced, Message: message}
	hub := grantedHub(t)
	used := served(seen(hub.Now()))
	hub.Put(used)
	hub.Remove(gone)
	handle(t, hub)
	got := expectRequests(t, hub, "update ClusterRegistration ws/r1", "update ClusterRegistration/status ws/r1", "create ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1")
	hubtest.ExpectOrder(t, got, "update ClusterRegistration ws/r1", "update ClusterRegistration/status ws/r1", "create ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1")
	expectStatus(t, hub, "c1", true, told)
	expectEvents(t, hub, "Warning AccountReplaced "+message, "Warning AccountReplaced "+message) // of the request and of the Cluster

	catchUp(t, hub)
	settle(t, hub, 1)
	secret := "Secret " + registration + "/" + credential
	expectRequests(t, hub, "mint cluster-ws-c1-552959a9c359/r1-u-r1 "+lifetime, "prove cluster-ws-c1-552959a9c359", "create "+secret, "get "+secret, "update "+secret)
	expectCredential(t, hub)
	expectStatus(t, hub, "c1", true, told) // whoever has fetched the old one does not know of the new one

	hub.Put(served(seen(hub.Now().Add(time.Minute))))
	handle(t, hub)
	expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
	expectEvents(t, hub)

	hub.Pass(grant.CredentialLife + time.Second)
	catchUp(t, hub)
	hub.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: credential}, Type: protocol.SecretTypeCredential})
	hub.Remove(gone)
	hub.Requests()
	settle(t, hub, 3)
	expectRequests(t, hub, "update ClusterRegistration ws/r1", "update ClusterRegistration/status ws/r1", "create ServiceAccount cluster-ws-c1-552959a9c359/r1-u-r1")
	expectStatus(t, hub, "c1", true, told) // and nothing is handed out any more
	expectNothingHandedOut(t, hub)
}

func TestAgentWithoutTokenName_IsReadableByAllTokensOfTheWorkspace(t *testing.T) {
	nameless := request(func(r *fleet.ClusterRegistration) { r.Labels = nil })
	elsewhere := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws2", Name: "t3", UID: "u-t3"}}
	another := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t0", UID: "u-t0"}}
	hub := start(t, nameless, cluster(), asked(), another, elsewhere)
	settle(t, hub, 2)
	expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
	binding := hubtest.MustGet[*rbacv1.RoleBinding](t, hub, registration, "r1-creds")
	want := []rbacv1.Subject{
		{Kind: "ServiceAccount", Namespace: "ws", Name: "t0-u-t0"},
		{Kind: "ServiceAccount", Namespace: "ws", Name: "t1-u-t1"},
	}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" {
		t.Errorf("readers (-want +got):\n%s", diff)
	}
}

// Rancher Fleet granted the registration and created its objects.
func TestRegistrationOfRancherFleet_IsContinued(t *testing.T) {
	granted := request(func(r *fleet.ClusterRegistration) {
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "c1", UID: "u-c1"}}
		r.Status = fleet.ClusterRegistrationStatus{ClusterName: "c1", Granted: true}
	})
	sa := &corev1.ServiceAccount{ObjectMeta: child(clusterNamespace, account)}
	sa.UID = "u-sa"
	secret := &corev1.Secret{
		ObjectMeta: child(registration, credential), Type: protocol.SecretTypeCredential,
		Data: protocol.Credential{Token: hubtest.Token("u-sa", time.Time{}), DeploymentNamespace: clusterNamespace, ClusterNamespace: "ws", ClusterName: "c1"}.Encode(),
	}
	secret.Labels[fleet.LabelCluster] = "c1"
	role := &rbacv1.Role{ObjectMeta: child(registration, "t1-u-t1-creds"), Rules: []rbacv1.PolicyRule{{ResourceNames: []string{credential}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: child(registration, "t1-u-t1-creds")}
	hub := start(t, granted, cluster(), asked(), sa, secret, role, binding, ownBinding())
	settle(t, hub, 1)
	hubtest.MustGet[*rbacv1.ClusterRoleBinding](t, hub, "", "r1-content") // until the agent can do without it
	settle(t, hub, 1)
	before := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential)
	if diff := cmp.Diff(secret.Data, before.Data); diff != "" {
		t.Errorf("the credential was replaced (-want +got):\n%s", diff)
	}
	// It can still be fetched, by what made it readable before.
	hubtest.MustGet[*rbacv1.Role](t, hub, registration, "t1-u-t1-creds")
	hubtest.MustGet[*rbacv1.RoleBinding](t, hub, registration, "t1-u-t1-creds")
	if hubtest.Get[*rbacv1.Role](hub, registration, "r1-creds") != nil {
		t.Error("it was made readable once more")
	}
	if hubtest.Get[*rbacv1.ClusterRoleBinding](hub, "", "r1-content") != nil {
		t.Error("it reads Contents twice")
	}
	hub.Requests()
	settle(t, hub, 1)
	expectRequests(t, hub)
}
