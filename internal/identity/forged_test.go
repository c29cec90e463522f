package identity

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// forged returns texts that the hub has not signed as documents of a type, by what is wrong with them. The hub has signed
// text. In its content, old is replaced by changed.
func forged(t *testing.T, hub Key, kind jose.ContentType, text, old, changed string) map[string]string {
	t.Helper()
	parts := strings.Split(text, ".")
	document, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	content := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(document), old, changed, 1)))
	if content == parts[1] {
		t.Fatalf("%q is not in the text", old)
	}
	tests := map[string]string{
		"changed content":            parts[0] + "." + content + "." + parts[2],
		"alg none":                   unsigned(fmt.Sprintf(`{"alg":"none","typ":%q}`, kind), document, ""),
		"alg HS256, public key":      signed(t, jose.HS256, []byte(hub.Public()), kind, document),
		"no type":                    signed(t, jose.ES256, hub.private, "", document),
		"signed text is not JSON":    signed(t, jose.ES256, hub.private, kind, []byte("x")),
		"signed text is empty":       signed(t, jose.ES256, hub.private, kind, []byte("{}")),
		"two megabytes":              text + strings.Repeat("A", 2<<20),
		"nothing":                    "",
		"no signature":               parts[0] + "." + parts[1] + ".",
		"content is not in the text": parts[0] + ".." + parts[2],
	}
	for _, other := range []jose.ContentType{proofType, ticketType, documentType} {
		if other != kind {
			tests["type "+string(other)] = signed(t, jose.ES256, hub.private, other, document)
		}
	}
	return tests
}

// expectForged expects that no text is accepted, with a short error that wraps want.
func expectForged(t *testing.T, tests map[string]string, want error, verify func(text string) error) {
	t.Helper()
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			err := verify(text)
			if !errors.Is(err, want) {
				t.Fatalf("error %v, want %v", err, want)
			}
			if len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}
