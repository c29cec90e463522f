package identity

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ticketType is the type in the header of a ticket.
const ticketType = "fleet-recovery-ticket+jws"

// maxTicket is the maximum size of a ticket in bytes.
const maxTicket = 16 << 10

// TicketLife is how long a hub accepts a ticket. The hub compares only times of its own clock.
const TicketLife = 90 * 24 * time.Hour

// ErrTicket is wrapped by errors about text that is not a ticket of the hub.
var ErrTicket = errors.New("not a ticket of this hub")

// Ticket describes the Cluster of an agent. The hub signs it and gives it to the agent. A hub that has lost the Cluster
// creates it again from the ticket. A ticket proves nothing without a proof by the key that it names.
type Ticket struct {
	// Workspace and Cluster identify the Cluster.
	Workspace string `json:"workspace"`
	Cluster   string `json:"cluster"`
	// Labels are the labels of the Cluster.
	Labels map[string]string `json:"labels,omitempty"`
	// Paused is spec.paused of the Cluster.
	Paused bool `json:"paused,omitempty"`
	// ClientID is the client ID of the Cluster.
	ClientID string `json:"clientID"`
	// Key is the thumbprint of the agent's key.
	Key string `json:"key"`
	// Time is when the hub signed the ticket, by the hub's clock.
	Time time.Time `json:"time"`
}

// Thumbprint returns a short text that identifies a public key, as Key.Public returns it: the base64url encoding of its
// SHA-256.
func Thumbprint(public string) string { return hash(public) }

// SignTicket returns a signed ticket: a JWS in compact form. The key is the hub's.
func (k Key) SignTicket(ticket Ticket) (string, error) {
	ticket.Time = ticket.Time.UTC().Truncate(time.Second)
	if err := ticket.check(); err != nil {
		return "", err
	}
	document, err := json.Marshal(ticket)
	if err != nil {
		return "", fmt.Errorf("encoding a ticket: %w", err)
	}
	text, err := k.sign(ticketType, document)
	if err == nil && len(text) > maxTicket {
		return "", fmt.Errorf("ticket of %d bytes, the maximum is %d: %w", len(text), maxTicket, ErrTicket)
	}
	return text, err
}

func (t Ticket) check() error {
	for name, value := range map[string]string{"workspace": t.Workspace, "cluster": t.Cluster, "clientID": t.ClientID, "key": t.Key} {
		if value == "" {
			return fmt.Errorf("ticket without %s: %w", name, ErrTicket)
		}
	}
	if t.Time.IsZero() {
		return fmt.Errorf("ticket without time: %w", ErrTicket)
	}
	return nil
}

// VerifyTicket returns the content of a ticket that the hub has signed. hub is the hub's public key. It does
// not check the time of the ticket.
func VerifyTicket(hub, text string) (Ticket, error) {
	if len(text) > maxTicket {
		return Ticket{}, fmt.Errorf("ticket of %d bytes: %w", len(text), ErrTicket)
	}
	document, err := verify(hub, ticketType, text)
	if err != nil {
		return Ticket{}, fmt.Errorf("%w: %w", ErrTicket, err)
	}
	var ticket Ticket
	if err := json.Unmarshal(document, &ticket); err != nil {
		return Ticket{}, fmt.Errorf("ticket cannot be decoded: %w", ErrTicket) // the cause could quote the text
	}
	return ticket, ticket.check()
}

// Receipt returns a text that identifies a ticket and what the hub gave with it: the time of the ticket in RFC 3339, a slash,
// and a hash of the rest. With it an agent says what it has, without revealing it. hub is the hub's public key, token the
// recovery token, and workspace the symmetric key of the workspace.
func Receipt(hub, token string, workspace []byte, ticket Ticket) string {
	signed := ticket.Time.UTC().Truncate(time.Second)
	ticket.Time = time.Time{}
	document, err := json.Marshal(struct {
		Hub, Token string
		Workspace  []byte
		Ticket     Ticket
	}{hub, token, workspace, ticket})
	if err != nil {
		return "" // strings and maps of strings can always be encoded
	}
	return signed.Format(time.RFC3339) + "/" + hash(string(document))
}

// ReceiptTime returns the time in a receipt, or the zero time if the text is not one.
func ReceiptTime(receipt string) time.Time {
	text, _, _ := strings.Cut(receipt, "/")
	signed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return signed
}

// WorkspaceKey returns the symmetric key of a workspace, which is derived from the hub's key. All agents of the
// workspace get it. It returns nil for the zero Key, and SealShared accepts no such key.
func (k Key) WorkspaceKey(workspace string) []byte {
	if k.private == nil {
		return nil
	}
	secret, err := k.private.Bytes()
	if err != nil {
		return nil // only for curves that NewKey and ParseKey do not return
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "fleet workspace key: "+workspace, sharedKeySize)
	if err != nil {
		return nil // only for much longer keys
	}
	return key
}
