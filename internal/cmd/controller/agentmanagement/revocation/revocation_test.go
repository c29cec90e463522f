package revocation

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	clusters = "Cluster"
	tokens   = "ClusterRegistrationToken"
	space    = "cluster-ws-c1-552959a9c359"
)

var errServer = errors.New("the server is upset")

func start(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	hub.Put(objects...)
	return hub
}

func handle(t *testing.T, hub *hubtest.Hub, kind, key string) {
	t.Helper()
	if err := hub.Handle(kind, key); err != nil {
		t.Fatal(err)
	}
	hub.Sync()
}

func cluster(name string, annotations map[string]string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Annotations: annotations}}
}

func request(name, cluster, token string) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, UID: types.UID("u-" + name), Annotations: map[string]string{annotation.TokenUIDAtGrant: token}},
		Status:     fleet.ClusterRegistrationStatus{ClusterName: cluster, Granted: true},
	}
}

func account(of string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: space, Name: of + "-u-" + of, UID: types.UID("account-" + of), Labels: map[string]string{fleet.LabelManaged: "true"},
	}}
}

func TestRevokedCredential_DeletesTheAccountsOfTheClusterOnce(t *testing.T) {
	hub := start(t, cluster("c1", map[string]string{annotation.RevokeCredential: "1", annotation.AgentKey: "k1"}),
		request("r1", "c1", "u1"), request("r2", "c1", "u1"), request("r3", "c2", "u1"), account("r1"), account("r3"))
	handle(t, hub, clusters, "ws/c1")
	hubtest.ExpectRequests(t, hub, "delete ServiceAccount "+space+"/r1-u-r1", "patch Cluster ws/c1")
	got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations
	if got[annotation.AgentKey] != "k1" || got[annotation.BlockedKey] != "" || got[annotation.CredentialRevoked] != "1" {
		t.Errorf("annotations %v", got)
	}
	handle(t, hub, clusters, "ws/c1")
	hubtest.ExpectRequests(t, hub)
}

func TestRevokedKey_IsBlockedBeforeTheAccountIsDeleted(t *testing.T) {
	hub := start(t, cluster("c1", map[string]string{annotation.RevokeKey: "1", annotation.AgentKey: "k1"}), request("r1", "c1", "u1"), account("r1"))
	hub.Fail("delete ServiceAccount "+space+"/r1-u-r1", errServer)
	if err := hub.Handle(clusters, "ws/c1"); !errors.Is(err, errServer) {
		t.Fatalf("error %v, want the server's", err)
	}
	hub.Sync()
	got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations
	if got[annotation.AgentKey] != "" || got[annotation.BlockedKey] != "k1" || got[annotation.KeyRevoked] != "" {
		t.Errorf("annotations %v", got)
	}
	hub.Fail("delete ServiceAccount "+space+"/r1-u-r1", nil)
	hub.Requests()
	handle(t, hub, clusters, "ws/c1") // the order is carried out again
	hubtest.ExpectRequests(t, hub, "delete ServiceAccount "+space+"/r1-u-r1", "patch Cluster ws/c1")
	if got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations; got[annotation.BlockedKey] != "k1" || got[annotation.KeyRevoked] != "1" {
		t.Errorf("annotations %v", got)
	}
}

// An agent can read its credential a moment before the status of its request says that it was granted.
func TestRevokedKey_ReachesARequestWhoseStatusIsNotWritten(t *testing.T) {
	answered, other := request("r1", "", "u1"), request("r2", "", "u1")
	answered.Spec.ClientID, other.Spec.ClientID = "client", "another"
	of := cluster("c1", map[string]string{annotation.RevokeKey: "1", annotation.AgentKey: "k1"})
	of.Spec.ClientID = "client"
	hub := start(t, of, answered, other, account("r1"), account("r2"))
	handle(t, hub, clusters, "ws/c1")
	hubtest.ExpectRequests(t, hub, "patch Cluster ws/c1", "delete ServiceAccount "+space+"/r1-u-r1", "patch Cluster ws/c1")
}

func TestRevokedCredential_IsRecordedOnAClusterThatLostItsAnnotations(t *testing.T) {
	ordered, bare := cluster("c1", map[string]string{annotation.RevokeCredential: "1"}), cluster("c1", nil)
	ordered.UID, bare.UID = "u-c1", "u-c1"
	hub := start(t, ordered)
	hub.Before("patch Cluster ws/c1", func() { hub.Have(bare) })
	handle(t, hub, clusters, "ws/c1")
	if got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations[annotation.CredentialRevoked]; got != "1" {
		t.Errorf("recorded %q", got)
	}
}

func TestClusterThatIsDeleted_IsLeftAlone(t *testing.T) {
	going := cluster("c1", map[string]string{annotation.RevokeKey: "1"})
	now := metav1.Now()
	going.DeletionTimestamp, going.Finalizers = &now, []string{"x"}
	hub := start(t, going)
	handle(t, hub, clusters, "ws/c1")
	hubtest.ExpectRequests(t, hub)
}

func TestDerivedKeys_AreRevokedBeforeTheTokenIsDeleted(t *testing.T) {
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: "t1", UID: "u1", Annotations: map[string]string{annotation.RevokeDerived: "true"},
	}}
	labelled := cluster("c1", nil)
	labelled.Labels = map[string]string{fleet.LabelTokenUID: "u1"}
	hub := start(t, token, labelled, cluster("c2", nil), cluster("c3", nil), request("r2", "c2", "u1"), request("r3", "c3", "u-other"))
	handle(t, hub, tokens, "ws/t1")
	hubtest.ExpectRequests(t, hub, "patch Cluster ws/c1", "patch Cluster ws/c2")
	hubtest.ExpectWoken(t, hub, tokens+" ws/t1 in 1s")
	handle(t, hub, tokens, "ws/t1")
	hubtest.ExpectRequests(t, hub, "delete ClusterRegistrationToken ws/t1")
	for name, want := range map[string]string{"c1": "token-u1", "c2": "token-u1", "c3": ""} {
		if got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", name).Annotations[annotation.RevokeKey]; got != want {
			t.Errorf("order on Cluster %s: %q, want %q", name, got, want)
		}
	}
}

func TestTokenWithoutOrder_IsLeftAlone(t *testing.T) {
	for _, value := range []string{"", "false", "yes"} {
		token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1", UID: "u1", Annotations: map[string]string{annotation.RevokeDerived: value}}}
		labelled := cluster("c1", nil)
		labelled.Labels = map[string]string{fleet.LabelTokenUID: "u1"}
		hub := start(t, token, labelled)
		handle(t, hub, tokens, "ws/t1")
		hubtest.ExpectRequests(t, hub)
	}
}
