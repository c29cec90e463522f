package swarm

import (
	"crypto/rand"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Identity is what an agent with a key stores: the key, its credential, and what the hub gave for a recovery.
type Identity struct {
	Key        identity.Key
	Credential protocol.Credential
	Recovery   protocol.Recovery
}

// Identity returns what an agent with a key stores, and false for an agent without a key or one that has not joined.
func (a *Agent) Identity() (Identity, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.credential == nil || a.recovery.Token == "" {
		return Identity{}, false
	}
	return Identity{Key: a.key, Credential: *a.credential, Recovery: a.recovery}, true
}

// sign announces that the agent renews its token, and adds its public key and a proof for the token's account. An agent
// without a key does neither.
func (a *Agent) sign(request *fleet.ClusterRegistration, token string) error {
	if !a.settings.Keyed {
		return nil
	}
	account, err := protocol.ParseAccountToken(token)
	if err != nil {
		return fmt.Errorf("signing the registration: %w", err)
	}
	key, err := a.ownKey()
	if err != nil {
		return err
	}
	proof, err := key.Prove(identity.Claims{ClientID: request.Spec.ClientID, ClientRandom: request.Spec.ClientRandom, Account: account.AccountUID})
	if err != nil {
		return fmt.Errorf("signing the registration: %w", err)
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentRenews, "true")
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentKey, key.Public())
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentProof, proof)
	return nil
}

// ownKey returns the agent's key, and creates a missing one.
func (a *Agent) ownKey() (identity.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.key != (identity.Key{}) {
		return a.key, nil
	}
	var err error
	a.key, err = identity.NewKey(rand.Reader)
	return a.key, err
}

// keep keeps what the hub gave for a recovery. A hub of an earlier release gives nothing.
func (a *Agent) keep(data map[string][]byte) {
	given, err := protocol.ParseRecovery(data)
	if !a.settings.Keyed || err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recovery = given
}

// receipt returns the receipt of what the hub gave for a recovery, or "".
func (a *Agent) receipt() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	ticket, err := identity.VerifyTicket(a.recovery.HubKey, a.recovery.Ticket)
	if err != nil {
		return ""
	}
	return identity.Receipt(a.recovery.HubKey, a.recovery.Token, a.recovery.WorkspaceKey, ticket)
}

// status returns what the agent reports of itself with a heartbeat.
func (a *Agent) status(c *protocol.Credential, now metav1.Time, namespace string) fleet.AgentStatus {
	status := fleet.AgentStatus{LastSeen: now, Namespace: namespace}
	if !a.settings.Keyed {
		return status
	}
	if key, err := a.ownKey(); err == nil {
		status.RecoveryKey = key.Public()
	}
	status.RecoveryTicket = a.receipt()
	if expires := protocol.ExpiryOf(c.Token); !expires.IsZero() {
		status.CredentialExpires = &metav1.Time{Time: expires}
	}
	return status
}
