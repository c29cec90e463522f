package recovery

import (
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// Kept is the content of the recovery Secret, as last read or written.
type Kept struct {
	Key  identity.Key // the zero Key if it was not read yet
	Data protocol.RecoveryData
}

// Receipt returns the receipt of the recovery data, or "" if a recovery with them is not possible.
func (k Kept) Receipt() string {
	ticket, err := identity.VerifyTicket(k.Data.HubKey, k.Data.Ticket)
	if _, isComplete := k.Data.Access(); err != nil || !isComplete {
		return ""
	}
	return identity.Receipt(k.Data.HubKey, k.Data.Token, k.Data.WorkspaceKey, ticket)
}

// AsTicket returns the client ID and the labels of the ticket, so that the hub finds or creates the same Cluster. If the
// hub's key was lost, the ticket cannot be read, and those of the configuration are used.
func (k Kept) AsTicket(settings config.Agent) (clientID string, labels map[string]string) {
	ticket, err := identity.VerifyTicket(k.Data.HubKey, k.Data.Ticket)
	if err != nil {
		return k.Data.ClientID, settings.Labels
	}
	return ticket.ClientID, ticket.Labels
}

// DocumentOf returns the serial and the recovery spread of the last hub document, if it was signed with this key.
func (k Kept) DocumentOf(hubKey string) (serial int64, spread time.Duration) {
	if k.Data.HubKey != hubKey {
		return 0, 0
	}
	return k.Data.Serial, k.Data.RecoverySpread
}

// Decrypted returns the data of a credential Secret. The answer to a recovery request is encrypted for the agent's key,
// because all agents of a workspace share the recovery account.
func (k Kept) Decrypted(data map[string][]byte) (map[string][]byte, error) {
	sealed := data[protocol.EncryptedKey]
	if len(sealed) == 0 {
		return data, nil
	}
	document, err := k.Key.Open(string(sealed))
	if err != nil {
		return nil, fmt.Errorf("decrypting key %q: %w", protocol.EncryptedKey, err)
	}
	return protocol.ParseAnswer(document)
}
