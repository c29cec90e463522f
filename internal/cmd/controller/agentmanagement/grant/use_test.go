package grant

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	usedCredential  = "Secret " + registration + "/" + credential
	wokenCredential = usedCredential + " in 2s"
)

// ends lists the requests that delete the answer to ws/r1.
func ends() []string {
	return []string{"delete RoleBinding " + registration + "/r1-creds", "delete Role " + registration + "/r1-creds", "delete " + usedCredential}
}

// usedHub is a hub on which the agent of ws/r1 has reported for the first time.
func usedHub(t *testing.T) *hubtest.Hub {
	t.Helper()
	hub := grantedHub(t)
	hub.Put(cluster(seen(hub.Now().Add(time.Second))))
	return hub
}

func endCredential(hub *hubtest.Hub) error {
	return hub.Handle("Secret", registration+"/"+credential)
}

func TestFirstHeartbeat_DeletesTheCredential(t *testing.T) {
	hub := usedHub(t)
	handle(t, hub)
	expectRequests(t, hub) // it only enqueues the credential
	hubtest.ExpectWoken(t, hub, wokenCredential)
	if err := endCredential(hub); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectOrder(t, expectRequests(t, hub, ends()...), ends()...)
	catchUp(t, hub)
	settle(t, hub, 2)
	expectRequests(t, hub)
	hubtest.ExpectWoken(t, hub)
	if !current(t, hub).Status.Granted {
		t.Error("the request is no longer granted")
	}
}

func TestCredentialWithoutUse_IsNotDeleted(t *testing.T) {
	hub := grantedHub(t)
	if err := endCredential(hub); err != nil {
		t.Fatal(err)
	}
	expectRequests(t, hub)
}

func TestDeletionFails_TheSecretGoesLastAndItContinues(t *testing.T) {
	for _, step := range ends() {
		t.Run(step, func(t *testing.T) {
			hub := usedHub(t)
			handle(t, hub)
			hub.Fail(step, errServer)
			if err := endCredential(hub); !errors.Is(err, errServer) {
				t.Fatalf("error %v, want the server's", err)
			}
			hub.Fail(step, nil)
			if hubtest.Get[*corev1.Secret](hub, registration, credential) == nil {
				t.Error("the Secret is gone, and nothing leads to what remains")
			}
			hub.Sync()
			if err := endCredential(hub); err != nil {
				t.Fatal(err)
			}
			expectAnswerGone(t, hub)
		})
	}
}

// A controller that is killed at any step has forgotten everything. The next one decides the same.
func TestKilledWhileDeleting_TheNextControllerContinues(t *testing.T) {
	for _, step := range append(ends(), "") {
		t.Run("before "+step, func(t *testing.T) {
			hub := usedHub(t)
			handle(t, hub)
			hub.Fail(step, errServer)
			_ = endCredential(hub) // the error of a controller that is killed reaches no one
			hub.Fail(step, nil)
			next := restarted(t, hub)
			for range 2 {
				settle(t, next, 1)
				if err := endCredential(next); err != nil {
					t.Fatal(err)
				}
			}
			expectAnswerGone(t, next)
			for _, request := range next.Requests() {
				if request == "create "+usedCredential || request == "create Role "+registration+"/r1-creds" {
					t.Errorf("made again: %s", request)
				}
			}
		})
	}
}

// restarted returns a hub with a new controller and the objects of another one.
func restarted(t *testing.T, from *hubtest.Hub) *hubtest.Hub {
	t.Helper()
	next := start(t, current(t, from), asked(), hubtest.MustGet[*fleet.Cluster](t, from, "ws", "c1"),
		hubtest.MustGet[*corev1.ServiceAccount](t, from, clusterNamespace, account), hubtest.MustGet[*rbacv1.Role](t, from, "ws", "r1"),
		hubtest.MustGet[*rbacv1.RoleBinding](t, from, "ws", "r1"), hubtest.MustGet[*rbacv1.RoleBinding](t, from, clusterNamespace, "r1"))
	if role := hubtest.Get[*rbacv1.Role](from, registration, "r1-creds"); role != nil {
		next.Put(role)
	}
	if binding := hubtest.Get[*rbacv1.RoleBinding](from, registration, "r1-creds"); binding != nil {
		next.Put(binding)
	}
	if secret := hubtest.Get[*corev1.Secret](from, registration, credential); secret != nil {
		next.Put(secret)
	}
	catchUp(t, next)
	next.Requests()
	return next
}

func expectAnswerGone(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	hub.Sync()
	bindings, roles, err := hub.App.CredentialAccessOf(types.NamespacedName{Namespace: "ws", Name: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	if secret := hubtest.Get[*corev1.Secret](hub, registration, credential); secret != nil || len(bindings)+len(roles) > 0 {
		t.Errorf("left: Secret %v, %d bindings, %d roles", secret != nil, len(bindings), len(roles))
	}
}

// The agent that registers again reads its answer although the one before it still reports.
func TestHeartbeatOfTheFormerAgent_KeepsTheCredential(t *testing.T) {
	before := time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)
	hub := start(t, request(), cluster(seen(before)), asked())
	settle(t, hub, 3)
	hub.Requests()
	hub.Woken()
	hub.Put(cluster(seen(before.Add(15*time.Minute)), reportedBy("u-former")))
	settle(t, hub, 1)
	expectRequests(t, hub, "get Cluster ws/c1")
	settle(t, hub, 1)
	expectRequests(t, hub) // it is read once
	if err := endCredential(hub); err != nil {
		t.Fatal(err)
	}
	expectRequests(t, hub)

	account := hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account)
	hub.Put(cluster(seen(before.Add(30*time.Minute)), reportedBy(string(account.UID))))
	settle(t, hub, 1)
	expectRequests(t, hub, "get Cluster ws/c1")
	hubtest.ExpectWoken(t, hub, wokenCredential)
}

// The heartbeat of an agent that registered again is read once. While its rights are repaired, the hub keeps what it read.
func TestRightsDeletedAfterFirstUse_AreRepairedWithoutAnotherCredential(t *testing.T) {
	before := time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)
	hub := start(t, request(), cluster(seen(before)), asked())
	settle(t, hub, 3)
	answered := hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account)
	hub.Put(cluster(seen(before.Add(15*time.Minute)), reportedBy(string(answered.UID))))
	settle(t, hub, 1)
	if err := endCredential(hub); err != nil {
		t.Fatal(err)
	}
	expectAnswerGone(t, hub)
	hub.Remove(hubtest.MustGet[*rbacv1.Role](t, hub, "ws", "r1"))
	hub.Requests()
	settle(t, hub, 3)
	expectRequests(t, hub, "create Role ws/r1")
}

func reportedBy(account string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "fleet-agent:" + account, Operation: "Update", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:agent":{"f:lastSeen":{}}}}`),
		}}
	}
}
