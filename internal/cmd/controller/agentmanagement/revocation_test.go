package agentmanagement_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// signedRequest is a request that is signed with a key, for the account of a token's values.
func signedRequest(t *testing.T, key identity.Key, values protocol.Values, clientID, random string) *fleet.ClusterRegistration {
	t.Helper()
	account, err := protocol.ParseAccountToken(values.Token)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Prove(identity.Claims{ClientID: clientID, ClientRandom: random, Account: account.AccountUID})
	if err != nil {
		t.Fatal(err)
	}
	request := newRequest(values.ClusterNamespace, clientID, random, values.TokenName)
	request.Annotations = map[string]string{annotation.AgentKey: key.Public(), annotation.AgentProof: proof}
	return request
}

// TestAgentKey_IsPinnedUsedAndRevoked pins a key at the first heartbeat, lets the agent return with another token,
// and revokes the key together with the credential.
func TestAgentKey_IsPinnedUsedAndRevoked(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-keys")
	newToken(t, hub, ws, "t1", 0)
	newToken(t, hub, ws, "t2", 0)
	one, two := valuesOf(t, hub, ws, "t1"), valuesOf(t, hub, ws, "t2")
	key, err := identity.NewKey(rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	name := names.Cluster("keyed")
	cluster := func(g Gomega) *fleet.Cluster {
		found := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, ws, name, found)).To(Succeed())
		return found
	}

	first := registerWith(t, bearer(t, one), signedRequest(t, key, one, "keyed", "first"))
	g.Expect(cluster(g).Annotations).NotTo(HaveKey(annotation.AgentKey), "before the first heartbeat")
	g.Expect(first.beat(t.Context(), name, time.Now().Add(-time.Hour))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(cluster(g).Annotations).To(HaveKeyWithValue(annotation.AgentKey, key.Public()))
	})

	second := registerWith(t, bearer(t, two), signedRequest(t, key, two, "keyed", "second"))
	g.Expect(second.beat(t.Context(), name, time.Now().Add(-time.Minute))).To(Succeed())
	expectRevoked(t, hub, first)

	stranger, err := identity.NewKey(rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	waits := func(request *fleet.ClusterRegistration) {
		t.Helper()
		g.Expect(bearer(t, two).Create(t.Context(), client.ClusterRegistrations, request)).To(Succeed())
		eventually(t, func(g Gomega) {
			found := &fleet.ClusterRegistration{}
			g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, ws, request.Name, found)).To(Succeed())
			g.Expect(found.Status.Conditions).To(ContainElement(HaveField("Reason", conditions.ReasonTakeoverPending)))
			g.Expect(found.Status.Granted).To(BeFalse())
		})
	}
	waits(signedRequest(t, stranger, two, "keyed", "third"))
	waits(newRequest(ws, "keyed", "fourth", "t2"))

	order := fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, annotation.RevokeKey)
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, name, []byte(order))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(apierrors.IsUnauthorized(second.beat(t.Context(), name, time.Now()))).To(BeTrue(), "the copied token still works")
	})
	g.Expect(cluster(g).Annotations).To(HaveKeyWithValue(annotation.BlockedKey, key.Public()))
	waits(signedRequest(t, key, two, "keyed", "fifth"))
}

// A thief of a credential can write a status that the hub cannot decode. The hub then reconciles the Cluster no longer, and
// still revokes the credential.
func TestRevocation_ReachesAClusterThatCannotBeDecoded(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-revoke-undecodable")
	newToken(t, hub, ws, "t1", 0)
	thief := register(t, bearer(t, valuesOf(t, hub, ws, "t1")), ws, "undecodable", "random of undecodable")
	name := names.Cluster("undecodable")
	request := thief.client.Fleet.Patch(types.MergePatchType).Namespace(ws).Resource(client.Clusters).Name(name).SubResource("status")
	g.Expect(request.Body([]byte(`{"status":{"garbageCollectionInterval":"x"}}`)).Do(t.Context()).Error()).To(Succeed())
	order := fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, annotation.RevokeCredential)
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, name, []byte(order))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(apierrors.IsUnauthorized(thief.beat(t.Context(), name, time.Now()))).To(BeTrue(), "the stolen credential still works")
	})
}
