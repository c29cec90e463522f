// Package content turns the resources of a Bundle into a Content object and back.
//
//	resources ─► manifest (JSON) ─► hash ─► name
//	                             └► gzip ─► Content ─► gunzip ─► hash again ─► resources
//
// It is pure. The bytes of a manifest are part of the wire contract: the name of a
// Content, and with it every deployment ID, is made of their hash.
package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// idPrefix begins the name of every Content, idLength is how long that name is: a
// DNS label. Changing either renames, and so redeploys, everything.
const (
	idPrefix = "s-"
	idLength = 63
)

// Manifest is the files of a Bundle in the Bundle's order. Two Bundles with the
// same files in the same order share one Content.
type Manifest struct {
	Resources []fleet.BundleResource `json:"resources,omitempty"`
}

// Bytes is the manifest as it is hashed and stored: compact JSON with the
// characters <, > and & escaped, keys in the order name, content, encoding, empty
// ones left out, and a newline at the end.
func (m Manifest) Bytes() []byte {
	var out bytes.Buffer
	// Strings only: the encoder has nothing here that it could refuse.
	_ = json.NewEncoder(&out).Encode(m)
	return out.Bytes()
}

// SHA256 is the hash of Bytes, in hexadecimal.
func (m Manifest) SHA256() string { return hash(m.Bytes()) }

// ID is the name of the manifest's Content, and the part of a deployment ID before
// the colon.
func (m Manifest) ID() string { return ID(m.SHA256()) }

// ID is the name of the Content whose manifest has this hash, in hexadecimal. For
// whoever has the hash at hand and need not compute it again.
func ID(sha256sum string) string {
	id := idPrefix + sha256sum
	return id[:min(idLength, len(id))]
}

// Parse reads a manifest. Fields it does not know are left out.
func Parse(text []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("parsing a manifest: %w", err)
	}
	return m, nil
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
