package identity

import (
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Maximum sizes in bytes of a document that is encrypted, and of its encrypted text. The sharedKeySize is that of
// A256GCM.
const (
	maxDocument   = 256 << 10
	maxSealed     = maxDocument*4/3 + 1024
	sharedKeySize = 32
)

// ErrSealed is wrapped by errors about text that cannot be decrypted with a key.
var ErrSealed = errors.New("the text cannot be decrypted with this key")

// Seal encrypts a document for the holder of a key: a JWE in compact form with ECDH-ES and A256GCM. public is what
// Key.Public returns.
func Seal(public string, document []byte) (string, error) {
	key, err := parsePublic(public)
	if err != nil {
		return "", err
	}
	return seal(jose.Recipient{Algorithm: jose.ECDH_ES, Key: key}, document)
}

// Open decrypts what Seal returned for this key.
func (k Key) Open(text string) ([]byte, error) {
	if k.private == nil {
		return nil, ErrKey
	}
	return open(k.private, jose.ECDH_ES, text)
}

// SealShared encrypts a document with a symmetric key of 32 bytes: a JWE in compact form with A256GCM.
func SealShared(key, document []byte) (string, error) {
	if len(key) != sharedKeySize {
		return "", fmt.Errorf("shared key of %d bytes: %w", len(key), ErrSealed)
	}
	return seal(jose.Recipient{Algorithm: jose.DIRECT, Key: key}, document)
}

// OpenShared decrypts what SealShared returned for this key.
func OpenShared(key []byte, text string) ([]byte, error) {
	if len(key) != sharedKeySize {
		return nil, fmt.Errorf("shared key of %d bytes: %w", len(key), ErrSealed)
	}
	return open(key, jose.DIRECT, text)
}

func seal(recipient jose.Recipient, document []byte) (string, error) {
	if len(document) > maxDocument {
		return "", fmt.Errorf("document of %d bytes, the maximum is %d: %w", len(document), maxDocument, ErrSealed)
	}
	encrypter, err := jose.NewEncrypter(jose.A256GCM, recipient, nil)
	if err != nil {
		return "", fmt.Errorf("preparing an encryption: %w", err)
	}
	sealed, err := encrypter.Encrypt(document)
	if err != nil {
		return "", fmt.Errorf("encrypting a document: %w", err)
	}
	return sealed.CompactSerialize()
}

// open decrypts a text that comes from elsewhere. Compressed content is refused, because its size is not limited.
func open(key any, algorithm jose.KeyAlgorithm, text string) ([]byte, error) {
	if len(text) > maxSealed {
		return nil, fmt.Errorf("encrypted text of %d bytes: %w", len(text), ErrSealed)
	}
	parsed, err := jose.ParseEncryptedCompact(text, []jose.KeyAlgorithm{algorithm}, []jose.ContentEncryption{jose.A256GCM})
	if err != nil {
		return nil, fmt.Errorf("encrypted text cannot be decoded: %w", ErrSealed)
	}
	if _, compressed := parsed.Header.ExtraHeaders["zip"]; compressed {
		return nil, fmt.Errorf("encrypted text is compressed: %w", ErrSealed)
	}
	document, err := parsed.Decrypt(key)
	if err != nil {
		return nil, ErrSealed
	}
	return document, nil
}
