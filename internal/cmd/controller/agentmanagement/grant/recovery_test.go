package grant

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// recoverable is a hub with a key and the recovery account of workspace ws.
func recoverable(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := start(t, append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: names.Recovery, UID: "u-recovery",
		Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: names.SetHash(recoveries.SetID, names.Owner{GVK: "/v1, Kind=Namespace", Name: "ws"})},
	}}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: names.RecoveryToken, Annotations: map[string]string{
			corev1.ServiceAccountNameKey: names.Recovery, corev1.ServiceAccountUIDKey: "u-recovery",
		}},
		Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(hubtest.Token("u-recovery", time.Time{}))},
	})...)
	if err := hub.App.Recoveries.LoadKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	hub.Requests()
	return hub
}

func newKey(t *testing.T) identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pinnedTo(key identity.Key) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.Annotations = map[string]string{annotation.AgentKey: key.Public()}
	}
}

// recovery is request r1 of the agent with a key that has lost its credential.
func recoveryOf(t *testing.T, hub *hubtest.Hub, key identity.Key) *fleet.ClusterRegistration {
	t.Helper()
	r := request()
	r.Labels = nil
	r.Spec.ClusterLabels = map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-0"}
	proof, err := key.Prove(identity.Claims{ClientID: r.Spec.ClientID, ClientRandom: r.Spec.ClientRandom, Account: "u-recovery", Hub: identity.Thumbprint(hub.App.Recoveries.Key().Public())})
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := hub.App.Recoveries.Key().SignTicket(identity.Ticket{
		Workspace: "ws", Cluster: "c1", ClientID: "client", Key: identity.Thumbprint(key.Public()), Time: hub.Now(), Labels: map[string]string{"env": "dev"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Annotations = map[string]string{annotation.AgentKey: key.Public(), annotation.AgentProof: proof, annotation.AgentTicket: ticket}
	return r
}

func TestSignedRequest_GetsRecoveryData(t *testing.T) {
	r, key := signed(t, "u-import")
	hub := recoverable(t, r, cluster(), asked(), importAccount())
	settle(t, hub, 2)
	data := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential).Data
	got, err := protocol.ParseRecovery(data)
	if err != nil || len(data) != 9 || got.Token != hubtest.Token("u-recovery", time.Time{}) {
		t.Fatalf("%d keys, %v", len(data), err)
	}
	ticket, err := identity.VerifyTicket(hub.App.Recoveries.Key().Public(), got.Ticket)
	if err != nil || ticket.Key != identity.Thumbprint(key) || ticket.Cluster != "c1" {
		t.Errorf("ticket %+v, %v", ticket, err)
	}
}

func TestUnsignedRequest_GetsFiveKeys(t *testing.T) {
	hub := recoverable(t, request(), cluster(), asked(), importAccount())
	settle(t, hub, 2)
	if data := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential).Data; len(data) != 5 {
		t.Errorf("%d keys, want 5", len(data))
	}
}

func TestRecoveryRequest_GetsAnEncryptedAnswer(t *testing.T) {
	key := newKey(t)
	hub := recoverable(t, cluster(pinnedTo(key), seen(metav1.Now().Time)))
	hub.Put(recoveryOf(t, hub, key))
	settle(t, hub, 2)
	if !current(t, hub).Status.Granted {
		t.Fatalf("not granted: %+v", current(t, hub).Status)
	}
	secret := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential)
	if len(secret.Data) != 1 {
		t.Fatalf("%d keys", len(secret.Data))
	}
	document, err := key.Open(string(secret.Data[protocol.EncryptedKey]))
	if err != nil {
		t.Fatal(err)
	}
	data, err := protocol.ParseAnswer(document)
	if err != nil {
		t.Fatal(err)
	}
	got, err := protocol.ParseCredential(data)
	if _, recoveryErr := protocol.ParseRecovery(data); err != nil || recoveryErr != nil || got.ClusterName != "c1" || got.DeploymentNamespace != clusterNamespace {
		t.Errorf("Cluster %s, %v, %v", got.ClusterName, err, recoveryErr)
	}
	hub.Requests()
	handle(t, hub)
	expectRequests(t, hub) // once
}

func TestRecoveredCluster_RecordsThePodWhenItReports(t *testing.T) {
	key := newKey(t)
	hub := recoverable(t, cluster(pinnedTo(key), seen(metav1.Now().Time)))
	hub.Put(recoveryOf(t, hub, key))
	settle(t, hub, 2)
	hub.Requests()
	report := func(account string, later time.Duration) string {
		t.Helper()
		c := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").DeepCopy()
		seen(hub.Now().Add(later))(c)
		spoke(account)(c)
		hub.Put(c)
		handle(t, hub)
		return hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations[annotation.RecoveredBy]
	}
	if by := report("u-of-another-request", time.Second); by != "" {
		t.Errorf("recovered by %q before the answer was used", by)
	}
	expectRequests(t, hub, "get Cluster ws/c1")
	own := string(hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account).UID)
	if by := report(own, time.Minute); !strings.HasPrefix(by, "fleet-agent-0=") {
		t.Errorf("recovered by %q", by)
	}
	expectRequests(t, hub, "get Cluster ws/c1", "patch Cluster ws/c1")
	hub.Sync()
	handle(t, hub)
	expectRequests(t, hub)
}

func TestCopiedRecovery_IsDeletedAndReported(t *testing.T) {
	key := newKey(t)
	hub := recoverable(t, cluster(pinnedTo(key), seen(metav1.Now().Time)))
	original := recoveryOf(t, hub, key)
	original.CreationTimestamp = metav1.NewTime(hub.Now())
	copied := original.DeepCopy()
	copied.Name, copied.UID = "r0", "u-r0"
	copied.Spec.ClusterLabels[fleet.LabelCreatedByAgentPod] = "another"
	hub.Put(original)
	hub.Put(copied)
	if err := hub.Handle(kindRequest, "ws/r0"); err != nil {
		t.Fatal(err)
	}
	expectRequests(t, hub, "delete ClusterRegistration ws/r0")
	if told := hub.Told(); len(told) != 1 || !strings.Contains(told[0], "repeats an earlier one") {
		t.Errorf("Events %v", told)
	}
	settle(t, hub, 2)
	if !current(t, hub).Status.Granted {
		t.Errorf("the original is not granted: %+v", current(t, hub).Status)
	}
}

func TestUnprovenRequests_AreDeletedAndReportedOnce(t *testing.T) {
	key, other := newKey(t), newKey(t)
	hub := recoverable(t, cluster(pinnedTo(key)))
	for range 2 {
		hub.Put(recoveryOf(t, hub, other))
		handle(t, hub)
		expectRequests(t, hub, "delete ClusterRegistration ws/r1")
		hub.Sync()
	}
	if told := hub.Told(); len(told) != 1 || !strings.Contains(told[0], reasonRecoveryRefused) {
		t.Errorf("Events %v", told)
	}
}

// Without its key, a hub cannot check a proof.
func TestRecoveryBeforeTheKeyIsLoaded_WaitsForIt(t *testing.T) {
	key := newKey(t)
	earlier := recoverable(t) // the hub before it was restarted
	hub := start(t, recoveryOf(t, earlier, key), cluster(pinnedTo(key)))
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, recoveries.ErrPending) {
		t.Errorf("error %v", err)
	}
	expectRequests(t, hub)
	if told := hub.Told(); len(told) > 0 {
		t.Errorf("Events %v", told)
	}
}

func TestLostCluster_IsCreatedFromItsTicketUnlessItWasDeleted(t *testing.T) {
	key := newKey(t)
	hub := recoverable(t)
	hub.Put(recoveryOf(t, hub, key))
	handle(t, hub)
	made := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1")
	if made.Spec.ClientID != "client" || made.Annotations[annotation.AgentKey] != key.Public() || made.Labels["env"] != "dev" {
		t.Errorf("Cluster %+v", made.ObjectMeta)
	}
	hub.Remove(made)
	if err := hub.App.Recoveries.Block(t.Context(), "ws", "c1", time.Time{}); err != nil {
		t.Fatal(err)
	}
	hub.Requests()
	handle(t, hub)
	if hubtest.Get[*fleet.Cluster](hub, "ws", "c1") != nil || hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r1") != nil {
		t.Error("the deleted Cluster returned, or its request stays")
	}
}

func TestCopiedCluster_ThirdRecoveryWaitsAndAnEventNamesBothPods(t *testing.T) {
	key := newKey(t)
	hub := recoverable(t)
	at := func(ago time.Duration) string { return hub.Now().Add(-ago).UTC().Format(time.RFC3339) }
	hub.Put(cluster(pinnedTo(key), seen(hub.Now()), func(c *fleet.Cluster) {
		c.Annotations[annotation.RecoveredBy] = "fleet-agent-0=" + at(2*time.Minute) + ",fleet-agent-1=" + at(time.Minute)
	}))
	third := recoveryOf(t, hub, key)
	third.CreationTimestamp = metav1.NewTime(hub.Now())
	hub.Put(third)
	handle(t, hub)
	if status := current(t, hub).Status; status.Granted || conditionReason(current(t, hub)) != conditions.ReasonTakeoverPending {
		t.Errorf("status %+v", status)
	}
	if told := hub.Told(); len(told) == 0 || !strings.Contains(told[0], "pods fleet-agent-1 and fleet-agent-0") {
		t.Errorf("Events %v", told)
	}
}
