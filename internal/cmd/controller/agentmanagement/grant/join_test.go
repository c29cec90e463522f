package grant

import (
	"crypto/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// importAccount is the account of token t1.
func importAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1-u-t1", UID: "u-import", Labels: map[string]string{fleet.LabelManaged: "true"}}}
}

// signed is request r1, signed with a key for the account of this UID.
func signed(t *testing.T, account string) (*fleet.ClusterRegistration, string) {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := request()
	proof, err := key.Prove(identity.Claims{ClientID: r.Spec.ClientID, ClientRandom: r.Spec.ClientRandom, Account: account})
	if err != nil {
		t.Fatal(err)
	}
	r.Annotations = map[string]string{annotation.AgentKey: key.Public(), annotation.AgentProof: proof}
	return r, key.Public()
}

func TestFirstUse_PinsTheKeyOnTheCluster(t *testing.T) {
	r, key := signed(t, "u-import")
	hub := start(t, r, cluster(), asked(), importAccount())
	settle(t, hub, 2)
	if got := current(t, hub).Annotations[annotation.AgentKeyAtGrant]; got != key {
		t.Fatalf("key %q is recorded, want %q", got, key)
	}
	hub.Requests()
	beat := func(account string, later time.Duration) *fleet.Cluster {
		c := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").DeepCopy()
		seen(hub.Now().Add(later))(c)
		spoke(account)(c)
		return c
	}
	hub.Put(beat("another account", time.Second))
	handle(t, hub)
	expectRequests(t, hub, "get Cluster ws/c1")

	hub.Put(beat(string(hubtest.Get[*corev1.ServiceAccount](hub, clusterNamespace, account).UID), time.Minute))
	handle(t, hub)
	expectRequests(t, hub, "get Cluster ws/c1", "patch Cluster ws/c1")
	pinned := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1")
	if pinned.Annotations[annotation.AgentKey] != key || pinned.Labels[fleet.LabelTokenUID] != "u-t1" {
		t.Errorf("annotations %v, labels %v", pinned.Annotations, pinned.Labels)
	}
	hub.Sync()
	handle(t, hub)
	expectRequests(t, hub) // once
}

func TestRequestSignedForAnotherAccount_IsAnsweredWithoutAKey(t *testing.T) {
	r, _ := signed(t, "u-of-another-token")
	hub := start(t, r, cluster(), asked(), importAccount())
	settle(t, hub, 2)
	if got := current(t, hub); !got.Status.Granted || got.Annotations[annotation.AgentKeyAtGrant] != "" {
		t.Errorf("granted %t, annotations %v", got.Status.Granted, got.Annotations)
	}
}

func TestNamedImportToken_ReplacesTheKeyWhenItsAgentReports(t *testing.T) {
	token, r, replaced := asked(), request(), cluster()
	token.Name, token.OwnerReferences = names.ImportToken("c1"), []metav1.OwnerReference{{Kind: "Cluster", Name: "c1", UID: "u-c1"}}
	r.Labels = map[string]string{fleet.LabelRegistrationToken: token.Name}
	seen(time.Unix(1, 0))(replaced)
	replaced.Annotations = map[string]string{annotation.AgentKey: "pinned"}
	hub := start(t, r, replaced, token)
	settle(t, hub, 2)
	if !current(t, hub).Status.Granted {
		t.Fatal("the request is not granted")
	}
	for _, beat := range []struct {
		account, pinned, replaced string
	}{
		{"another account", "pinned", ""},
		{string(hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account).UID), "", "pinned"},
	} {
		c := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").DeepCopy()
		seen(c.Status.Agent.LastSeen.Add(time.Minute))(c)
		spoke(beat.account)(c)
		hub.Put(c)
		settle(t, hub, 1)
		now := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations
		if now[annotation.AgentKey] != beat.pinned || now[annotation.ReplacedKey] != beat.replaced {
			t.Errorf("after a heartbeat of %s: annotations %v", beat.account, now)
		}
	}
}

func TestAgentWithoutKey_EndsTheTicketsOfTheOneItReplaces(t *testing.T) {
	replaced := cluster()
	seen(time.Unix(1, 0))(replaced)
	replaced.Annotations = map[string]string{annotation.AgentKey: "pinned", annotation.ConfirmTakeover: "r1"}
	hub := start(t, request(), replaced, asked(), importAccount())
	settle(t, hub, 2)
	hub.Sync()
	handle(t, hub)
	now := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations
	if now[annotation.AgentKey] != "" || now[annotation.TicketsSince] != hub.Now().UTC().Format(time.RFC3339) {
		t.Errorf("annotations %v", now)
	}
	if now[annotation.ReplacedKey] != "pinned" || now[annotation.ConfirmTakeover] != "" {
		t.Errorf("annotations %v", now)
	}
}
