package protocol

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// Recovery contains what the hub gives to an agent whose key it has verified, so that the agent can return after a
// loss. A credential Secret contains it together with the credential.
type Recovery struct {
	// Token is the token of the recovery account of the workspace.
	Token string
	// Ticket is the hub's signed description of the Cluster.
	Ticket string
	// HubKey is the hub's public key.
	HubKey string
	// WorkspaceKey is the symmetric key of the workspace.
	WorkspaceKey []byte
}

// Encode returns the four keys of the Secret.
func (r Recovery) Encode() map[string][]byte {
	return map[string][]byte{
		recoveryTokenKey:  []byte(r.Token),
		recoveryTicketKey: []byte(r.Ticket),
		hubKeyKey:         []byte(r.HubKey),
		workspaceKeyKey:   []byte(base64.RawURLEncoding.EncodeToString(r.WorkspaceKey)),
	}
}

// ParseRecovery parses the four keys. Other keys of the Secret are ignored. If a value is missing, the error wraps
// ErrIncomplete and names the value.
func ParseRecovery(data map[string][]byte) (Recovery, error) {
	entries := asText(data)
	if err := need(entries, recoveryTokenKey, recoveryTicketKey, hubKeyKey, workspaceKeyKey); err != nil {
		return Recovery{}, fmt.Errorf("recovery data: %w", err)
	}
	key, err := base64.RawURLEncoding.DecodeString(entries[workspaceKeyKey])
	if err != nil {
		return Recovery{}, fmt.Errorf("recovery data: %q is not base64url: %w", workspaceKeyKey, ErrIncomplete)
	}
	return Recovery{Token: entries[recoveryTokenKey], Ticket: entries[recoveryTicketKey], HubKey: entries[hubKeyKey], WorkspaceKey: key}, nil
}

// ErrAnswer is wrapped by errors about the decrypted answer to a recovery request.
var ErrAnswer = errors.New("not the answer to a recovery request")

// EncodeData returns the document that is encrypted as the answer to a recovery request, for the data of a credential
// Secret.
func EncodeData(data map[string][]byte) ([]byte, error) {
	document, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	return document, nil
}

// ParseAnswer parses the document of EncodeData into the data of a credential Secret. No error quotes the document.
func ParseAnswer(document []byte) (map[string][]byte, error) {
	var data map[string][]byte
	if json.Unmarshal(document, &data) != nil || data == nil {
		return nil, ErrAnswer
	}
	return data, nil
}
