package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// documentType is the type in the header of a hub document.
const documentType = "fleet-hub-document+jws"

// Limits of a hub document. A ConfigMap has at most 1 MiB.
const (
	// MaxHubDocument is the maximum size of the signed text in bytes.
	MaxHubDocument = 1000 << 10
	maxURL         = 2048
	maxCA          = 128 << 10
)

// ErrDocument is wrapped by errors about text that is not a document of the hub.
var ErrDocument = errors.New("not a document of this hub")

// Document describes how agents reach the hub. The hub signs it, and any client may read it.
type Document struct {
	// URL is the address of the hub's API server. It is empty if the hub does not know its address.
	URL string
	// CA is the PEM of the CAs that verify it, or empty.
	CA []byte
	// Lifetime is the lifetime of the credentials of agents. 0 means that they do not expire.
	Lifetime time.Duration
	// Serial is the time of the signature in seconds. A document with a lower serial than an earlier one is not accepted.
	Serial int64
	// AddressSerial is the serial of the first document with this URL and these CAs.
	AddressSerial int64
	// RecoverySpread is the time over which agents spread their recovery requests after the hub rejected all of them. 0 means
	// that the hub has few clusters, or an earlier release. Agents limit it.
	RecoverySpread time.Duration
	// Tokens contains the recovery token of each workspace, see AddToken.
	Tokens map[string]string
}

// documentPayload is the signed text. After a change, hubs and agents of other releases no longer understand each other.
// They ignore fields that they do not know.
type documentPayload struct {
	URL            string            `json:"url,omitempty"`
	CA             []byte            `json:"ca,omitempty"`
	Lifetime       int64             `json:"lifetimeSeconds,omitempty"`
	Serial         int64             `json:"serial"`
	AddressSerial  int64             `json:"addressSerial,omitempty"`
	RecoverySpread int64             `json:"recoverySpreadSeconds,omitempty"`
	Tokens         map[string]string `json:"tokens,omitempty"`
}

// AddToken adds the recovery token of the workspace with this key, encrypted with the key. The name of the entry is a
// hash of the key, so that other clients do not learn the names of workspaces.
func (d *Document) AddToken(workspaceKey []byte, token string) error {
	sealed, err := SealShared(workspaceKey, []byte(token))
	if err != nil {
		return err
	}
	if d.Tokens == nil {
		d.Tokens = map[string]string{}
	}
	d.Tokens[entryOf(workspaceKey)] = sealed
	return nil
}

// Token returns the recovery token of the workspace with this key, or "" if the document lacks it.
func (d *Document) Token(workspaceKey []byte) (string, error) {
	sealed, found := d.Tokens[entryOf(workspaceKey)]
	if !found {
		return "", nil
	}
	token, err := OpenShared(workspaceKey, sealed)
	return string(token), err
}

// SameAddress reports whether two documents have the same URL and CAs.
func (d *Document) SameAddress(other *Document) bool {
	return d.URL == other.URL && bytes.Equal(d.CA, other.CA)
}

func entryOf(workspaceKey []byte) string { return hash("fleet hub document: " + string(workspaceKey)) }

func (d *Document) check() error {
	switch {
	case d.Serial <= 0, d.AddressSerial < 0, d.AddressSerial > d.Serial:
		return fmt.Errorf("document without a valid serial: %w", ErrDocument)
	case d.Lifetime < 0, d.RecoverySpread < 0:
		return fmt.Errorf("document with a negative time: %w", ErrDocument)
	case len(d.URL) > maxURL, len(d.CA) > maxCA:
		return fmt.Errorf("URL of %d bytes and CA of %d bytes, the maximum is %d and %d: %w", len(d.URL), len(d.CA), maxURL, maxCA, ErrDocument)
	case d.URL == "":
		return nil
	}
	if parsed, err := url.Parse(d.URL); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return fmt.Errorf("URL is not an address that begins with https:// : %w", ErrDocument)
	}
	return nil
}

// SignDocument returns a signed document: a JWS in compact form. The key is the hub's.
func (k Key) SignDocument(d Document) (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	document, err := json.Marshal(documentPayload{
		URL: d.URL, CA: d.CA, Lifetime: int64(d.Lifetime / time.Second), Serial: d.Serial, AddressSerial: d.AddressSerial,
		RecoverySpread: int64(d.RecoverySpread / time.Second), Tokens: d.Tokens,
	})
	if err != nil {
		return "", fmt.Errorf("encoding a document: %w", err)
	}
	text, err := k.sign(documentType, document)
	if err == nil && len(text) > MaxHubDocument {
		return "", fmt.Errorf("document of %d bytes, the maximum is %d: %w", len(text), MaxHubDocument, ErrDocument)
	}
	return text, err
}

// VerifyDocument returns the content of a document that the hub has signed. hub is the hub's public key. The caller
// compares the serial.
func VerifyDocument(hub, text string) (Document, error) {
	if len(text) > MaxHubDocument {
		return Document{}, fmt.Errorf("document of %d bytes: %w", len(text), ErrDocument)
	}
	document, err := verify(hub, documentType, text)
	if err != nil {
		return Document{}, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	var p documentPayload
	if err := json.Unmarshal(document, &p); err != nil {
		return Document{}, fmt.Errorf("document cannot be decoded: %w", ErrDocument) // the cause could quote the text
	}
	const longest = int64(100 * 365 * 24 * time.Hour / time.Second)
	d := Document{
		URL: p.URL, CA: p.CA, Lifetime: time.Duration(min(p.Lifetime, longest)) * time.Second,
		Serial: p.Serial, AddressSerial: p.AddressSerial, RecoverySpread: time.Duration(min(p.RecoverySpread, longest)) * time.Second,
		Tokens: p.Tokens,
	}
	return d, d.check()
}
