package identity

import (
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

var (
	errDecode    = errors.New("text cannot be decoded")
	errSignature = errors.New("signature does not match the key")
)

// sign returns a JWS in compact form of a type.
func (k Key) sign(kind jose.ContentType, document []byte) (string, error) {
	if k.private == nil {
		return "", ErrKey
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k.private}, (&jose.SignerOptions{}).WithType(kind))
	if err != nil {
		return "", fmt.Errorf("preparing a signature: %w", err)
	}
	signed, err := signer.Sign(document)
	if err != nil {
		return "", fmt.Errorf("signing %s: %w", kind, err)
	}
	return signed.CompactSerialize()
}

// verify returns the content of a JWS of a type that the key has signed. The caller limits the size of the text. No
// error quotes the text, which comes from a tenant.
func verify(public string, kind jose.ContentType, text string) ([]byte, error) {
	key, err := parsePublic(public)
	if err != nil {
		return nil, err
	}
	parsed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, errDecode
	}
	if parsed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] != string(kind) {
		return nil, fmt.Errorf("signature is not of type %s", kind)
	}
	document, err := parsed.Verify(key)
	if err != nil {
		return nil, errSignature
	}
	return document, nil
}
