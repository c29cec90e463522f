package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func encrypted(t *testing.T, encryption jose.ContentEncryption, recipient jose.Recipient, options *jose.EncrypterOptions) string {
	t.Helper()
	encrypter, err := jose.NewEncrypter(encryption, recipient, options)
	if err != nil {
		t.Fatal(err)
	}
	object, err := encrypter.Encrypt([]byte(strings.Repeat("document", 100)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSealedDocument_IsOpenedOnlyByItsKey(t *testing.T) {
	key, other, document := newKey(t), newKey(t), []byte("document")
	text, err := Seal(key.Public(), document)
	if err != nil {
		t.Fatal(err)
	}
	got, err := key.Open(text)
	if err != nil || !bytes.Equal(got, document) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := other.Open(text); !errors.Is(err, ErrSealed) {
		t.Errorf("another key: %v", err)
	}
	if _, err := (Key{}).Open(text); !errors.Is(err, ErrKey) {
		t.Errorf("zero key: %v", err)
	}
	if _, err := Seal("", document); !errors.Is(err, ErrKey) {
		t.Errorf("no key: %v", err)
	}
	if _, err := Seal(key.Public(), make([]byte, maxDocument+1)); !errors.Is(err, ErrSealed) {
		t.Errorf("large document: %v", err)
	}
	largest, err := Seal(key.Public(), make([]byte, maxDocument))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := key.Open(largest); err != nil || len(got) != maxDocument {
		t.Errorf("largest document: %d bytes, %v", len(got), err)
	}
}

func TestForgedSealedDocument_IsRejected(t *testing.T) {
	key, shared := newKey(t), make([]byte, sharedKeySize)
	text, err := Seal(key.Public(), []byte("document"))
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := &key.private.PublicKey
	for name, text := range map[string]string{
		"nothing":                "",
		"a megabyte":             text + strings.Repeat("A", 1<<20),
		"changed":                text[:len(text)-4] + "AAAA",
		"another curve":          encrypted(t, jose.A256GCM, jose.Recipient{Algorithm: jose.ECDH_ES, Key: &p384.PublicKey}, nil),
		"another key wrap":       encrypted(t, jose.A256GCM, jose.Recipient{Algorithm: jose.ECDH_ES_A256KW, Key: public}, nil),
		"another encryption":     encrypted(t, jose.A128CBC_HS256, jose.Recipient{Algorithm: jose.ECDH_ES, Key: public}, nil),
		"compressed":             encrypted(t, jose.A256GCM, jose.Recipient{Algorithm: jose.ECDH_ES, Key: public}, &jose.EncrypterOptions{Compression: jose.DEFLATE}),
		"shared key":             encrypted(t, jose.A256GCM, jose.Recipient{Algorithm: jose.DIRECT, Key: shared}, nil),
		"point not on the curve": strings.Replace(text, ".", "x.", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := key.Open(text); !errors.Is(err, ErrSealed) {
				t.Errorf("%q, error %v", got, err)
			}
		})
	}
}

func TestSharedKey_OpensOnlyItsDocument(t *testing.T) {
	hub, document := newKey(t), []byte("document")
	text, err := SealShared(hub.WorkspaceKey("a"), document)
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenShared(hub.WorkspaceKey("a"), text)
	if err != nil || !bytes.Equal(got, document) {
		t.Errorf("got %q, %v", got, err)
	}
	for name, key := range map[string][]byte{"another workspace": hub.WorkspaceKey("b"), "no key": nil, "short key": make([]byte, 16)} {
		if _, err := OpenShared(key, text); !errors.Is(err, ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := SealShared(nil, document); !errors.Is(err, ErrSealed) {
		t.Errorf("no key: %v", err)
	}
}

// FuzzOpen checks that no text that was not sealed for the key is opened, and that nothing panics.
func FuzzOpen(f *testing.F) {
	key := newKey(f)
	text, err := Seal(key.Public(), []byte("document"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("....")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxSealed {
			return
		}
		if got, err := key.Open(text); err != nil && got != nil {
			t.Fatalf("an error, and yet %q", got)
		}
		if got, err := OpenShared(make([]byte, sharedKeySize), text); err == nil {
			t.Logf("opened with the zero key: %q", got) // any client can encrypt with a known key
		}
	})
}
