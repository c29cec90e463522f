// Package content turns the resources of a Bundle into a Content object and back.
//
//	resources ─► manifest (JSON) ─► hash ─► name
//	                             └► gzip ─► Content ─► gunzip ─► hash again ─► resources
//
// It is pure. The bytes of a manifest are part of the wire contract: their hash is the name of the Content, and so
// part of every deployment ID.
package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// idPrefix starts the name of every Content. idLength limits the name to a DNS label. Changing either renames every
// Content, and so redeploys everything.
const (
	idPrefix = "s-"
	idLength = 63
)

// Manifest lists the files of a Bundle in the Bundle's order. Two Bundles with the same files in the same order share
// one Content.
type Manifest struct {
	Resources []fleet.BundleResource `json:"resources,omitempty"`
}

// Bytes returns the manifest as it is hashed and stored: compact JSON with <, > and & escaped, the keys in the order
// name, content, encoding, without empty ones, and with a newline at the end.
func (m Manifest) Bytes() []byte {
	var out bytes.Buffer
	// Encoding strings cannot fail.
	_ = json.NewEncoder(&out).Encode(m)
	return out.Bytes()
}

// SHA256 returns the hash of Bytes in hexadecimal.
func (m Manifest) SHA256() string { return hash(m.Bytes()) }

// ID returns the name of the manifest's Content, which is the part of a deployment ID before the colon.
func (m Manifest) ID() string { return ID(m.SHA256()) }

// ID returns the name of the Content whose manifest has this hexadecimal hash.
func ID(sha256sum string) string {
	id := idPrefix + sha256sum
	return id[:min(idLength, len(id))]
}

// Parse reads a manifest. It ignores unknown fields.
func Parse(text []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("parsing manifest: %w", err)
	}
	return m, nil
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
