package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// pemType is the type of the PEM block with a private key.
const pemType = "PRIVATE KEY"

// Maximum sizes in bytes of the inputs of this package. A public key has 91 bytes before it is encoded.
const (
	maxPublicKey  = 256
	maxPrivateKey = 4096
	maxProof      = 1024
)

// ErrKey is wrapped by errors about text that is not a key of this package.
var ErrKey = errors.New("not an ECDSA key on the curve P-256")

// Key is the private key of an agent. Its String method prints only the public key, so that logs never contain it.
type Key struct{ private *ecdsa.PrivateKey }

// NewKey returns a new key from a source of randomness.
func NewKey(random io.Reader) (Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return Key{}, fmt.Errorf("generating a key: %w", err)
	}
	return Key{private}, nil
}

// ParseKey parses the PEM document that Encode returns.
func ParseKey(document []byte) (Key, error) {
	if len(document) > maxPrivateKey {
		return Key{}, fmt.Errorf("private key of %d bytes: %w", len(document), ErrKey)
	}
	block, _ := pem.Decode(document)
	if block == nil || block.Type != pemType {
		return Key{}, fmt.Errorf("no PEM block %q: %w", pemType, ErrKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("PEM block %q cannot be decoded: %w", pemType, ErrKey) // the cause could quote the key
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return Key{}, ErrKey
	}
	return Key{private}, nil
}

// Encode returns the key as a PEM document.
func (k Key) Encode() ([]byte, error) {
	if k.private == nil {
		return nil, ErrKey
	}
	document, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: document}), nil
}

// Public returns the public key as text: the base64url encoding of its SubjectPublicKeyInfo. It is the only encoding
// of this key that Verify accepts, so that two texts are equal if and only if the keys are. It returns "" for the zero
// Key.
func (k Key) Public() string {
	if k.private == nil {
		return ""
	}
	text, err := encodePublic(&k.private.PublicKey)
	if err != nil {
		return "" // only for curves that NewKey and ParseKey do not return
	}
	return text
}

// String returns the public key.
func (k Key) String() string { return k.Public() }

// GoString returns the public key.
func (k Key) GoString() string { return k.Public() }

func encodePublic(key *ecdsa.PublicKey) (string, error) {
	document, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding a public key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(document), nil
}

// parsePublic parses the text that Public returns, and no other encoding of the same key.
func parsePublic(text string) (*ecdsa.PublicKey, error) {
	if len(text) > maxPublicKey {
		return nil, fmt.Errorf("public key of %d bytes: %w", len(text), ErrKey)
	}
	document, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("public key is not base64url: %w", ErrKey)
	}
	parsed, err := x509.ParsePKIXPublicKey(document)
	if err != nil {
		return nil, fmt.Errorf("public key cannot be decoded: %w", ErrKey)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, ErrKey
	}
	if again, err := encodePublic(key); err != nil || again != text {
		return nil, fmt.Errorf("public key has another encoding: %w", ErrKey)
	}
	return key, nil
}

// CheckPublic returns an error that wraps ErrKey unless the text is a public key as Key.Public returns it.
func CheckPublic(text string) error {
	_, err := parsePublic(text)
	return err
}
