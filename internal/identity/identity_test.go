package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func newKey(t testing.TB) Key {
	t.Helper()
	key, err := NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func someClaims() Claims {
	return Claims{ClientID: "client", ClientRandom: "random", Account: "account-uid"}
}

func proofOf(t testing.TB, key Key, claims Claims) string {
	t.Helper()
	proof, err := key.Prove(claims)
	if err != nil {
		t.Fatal(err)
	}
	return proof
}

// signed returns a JWS in compact form with any content.
func signed(t *testing.T, algorithm jose.SignatureAlgorithm, key any, kind jose.ContentType, document []byte) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType(kind))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(document)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signature.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func pkix(t *testing.T, public any) string {
	t.Helper()
	document, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(document)
}

// unsigned returns a compact JWS with this header and signature.
func unsigned(header string, document []byte, signature string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode(document) + "." + signature
}

func TestProof_IsAcceptedForExactlyItsRequest(t *testing.T) {
	key, claims := newKey(t), someClaims()
	proof := proofOf(t, key, claims)
	if err := Verify(key.Public(), proof, claims); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Claims){
		"another client ID":       func(c *Claims) { c.ClientID = "client2" },
		"a replay":                func(c *Claims) { c.ClientRandom = "random2" },
		"another token":           func(c *Claims) { c.Account = "other-uid" },
		"no account":              func(c *Claims) { c.Account = "" },
		"another hub":             func(c *Claims) { c.Hub = "hub" },
		"parts moved between two": func(c *Claims) { c.ClientID, c.ClientRandom = "clientr", "andom" },
	} {
		t.Run(name, func(t *testing.T) {
			other := someClaims()
			change(&other)
			if err := Verify(key.Public(), proof, other); !errors.Is(err, ErrProof) {
				t.Errorf("error %v, want %v", err, ErrProof)
			}
		})
	}
	withHub := claims
	withHub.Hub = "hub"
	if err := Verify(key.Public(), proofOf(t, key, withHub), withHub); err != nil {
		t.Error(err)
	}
}

func TestForgedProof_IsRejected(t *testing.T) {
	key, claims := newKey(t), someClaims()
	document, err := claims.encode()
	if err != nil {
		t.Fatal(err)
	}
	proof := proofOf(t, key, claims)
	parts := strings.Split(proof, ".")
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := json.Marshal(jose.JSONWebKey{Key: &newKey(t).private.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	header := func(text string) string { return fmt.Sprintf(`{"typ":%q,%s}`, proofType, text) }
	for name, test := range map[string]struct {
		public, proof string
		want          error
	}{
		"signature of another key":       {key.Public(), proofOf(t, newKey(t), claims), ErrProof},
		"alg none":                       {key.Public(), unsigned(header(`"alg":"none"`), document, ""), ErrProof},
		"alg none with a signature":      {key.Public(), unsigned(header(`"alg":"none"`), document, parts[2]), ErrProof},
		"alg HS256 with the public key":  {key.Public(), signed(t, jose.HS256, []byte(key.Public()), proofType, document), ErrProof},
		"alg RS256":                      {pkix(t, &rsaKey.PublicKey), signed(t, jose.RS256, rsaKey, proofType, document), ErrKey},
		"alg EdDSA":                      {pkix(t, edPublic), signed(t, jose.EdDSA, edKey, proofType, document), ErrKey},
		"alg ES384 on P-384":             {pkix(t, &p384.PublicKey), signed(t, jose.ES384, p384, proofType, document), ErrKey},
		"key on P-384, proof of another": {pkix(t, &p384.PublicKey), proof, ErrKey},
		"another type":                   {key.Public(), signed(t, jose.ES256, key.private, "JWT", document), ErrProof},
		"no type":                        {key.Public(), signed(t, jose.ES256, key.private, "", document), ErrProof},
		"key in the header":              {key.Public(), unsigned(header(`"alg":"ES256","jwk":`+string(embedded)), document, parts[2]), ErrProof},
		"unknown critical header":        {key.Public(), unsigned(header(`"alg":"ES256","crit":["x"],"x":1`), document, parts[2]), ErrProof},
		"payload is not encoded":         {key.Public(), unsigned(header(`"alg":"ES256","b64":false,"crit":["b64"]`), document, parts[2]), ErrProof},
		"changed payload":                {key.Public(), parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{}`)) + "." + parts[2], ErrProof},
		"more fields in the payload":     {key.Public(), signed(t, jose.ES256, key.private, proofType, append(document[:len(document)-1:len(document)-1], `,"x":1}`...)), ErrProof},
		"no signature":                   {key.Public(), parts[0] + "." + parts[1] + ".", ErrProof},
		"detached payload":               {key.Public(), parts[0] + ".." + parts[2], ErrProof},
		"JSON serialization":             {key.Public(), `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, ErrProof},
		"empty proof":                    {key.Public(), "", ErrProof},
		"proof of one megabyte":          {key.Public(), proof + strings.Repeat("A", 1<<20), ErrProof},
		"key of one megabyte":            {strings.Repeat("A", 1<<20), proof, ErrKey},
		"empty key":                      {"", proof, ErrKey},
		"key is not base64":              {"?", proof, ErrKey},
		"key with line breaks":           {key.Public()[:10] + "\n" + key.Public()[10:], proof, ErrKey},
		"key with padding":               {key.Public() + "==", proof, ErrKey},
		"key is no key":                  {base64.RawURLEncoding.EncodeToString([]byte("no key")), proof, ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			err := Verify(test.public, test.proof, claims)
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestKey_IsStoredAndRead(t *testing.T) {
	key := newKey(t)
	document, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseKey(document)
	if err != nil {
		t.Fatal(err)
	}
	if again.Public() != key.Public() || again.Public() == "" {
		t.Errorf("the key %q was read as %q", key.Public(), again.Public())
	}
	if got := fmt.Sprintf("%v %+v %#v %s", key, key, key, key); strings.Count(got, key.Public()) != 4 || strings.Contains(got, key.private.D.String()) { //nolint:staticcheck // D is what must not be printed
		t.Errorf("a key is printed as %s", got)
	}
}

func TestDamagedKey_IsRejected(t *testing.T) {
	key := newKey(t)
	document, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(p384)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string][]byte{
		"nothing":        nil,
		"truncated":      document[:len(document)/2],
		"another curve":  pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: other}),
		"another type":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
		"no key in it":   pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: []byte("x")}),
		"a megabyte":     append([]byte(strings.Repeat("\n", 1<<20)), document...),
		"text, not PEM":  []byte("key"),
		"the public key": []byte(key.Public()),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseKey(test); !errors.Is(err, ErrKey) {
				t.Errorf("error %v, want %v", err, ErrKey)
			}
		})
	}
	var none Key
	if _, err := none.Encode(); !errors.Is(err, ErrKey) {
		t.Errorf("the zero key is encoded: %v", err)
	}
	if _, err := none.Prove(someClaims()); !errors.Is(err, ErrKey) || none.Public() != "" {
		t.Errorf("the zero key signs: %v", err)
	}
	if _, err := key.Prove(Claims{ClientID: "client"}); !errors.Is(err, ErrProof) {
		t.Errorf("a proof without an account: %v", err)
	}
}

// FuzzVerify checks that no text but the proof of the key is accepted, and that nothing panics.
func FuzzVerify(f *testing.F) {
	key, claims := newKey(f), someClaims()
	proof := proofOf(f, key, claims)
	f.Add(key.Public(), proof)
	f.Add(key.Public(), unsigned(`{"alg":"none","typ":"`+proofType+`"}`, []byte(`{}`), ""))
	f.Add("", "..")
	f.Fuzz(func(t *testing.T, public, text string) {
		err := Verify(public, text, claims)
		if err == nil && public != key.Public() {
			t.Fatalf("a proof of a key that was never made: %q", text)
		}
		if err != nil && public == key.Public() && text == proof {
			t.Fatal(err)
		}
	})
}

// FuzzParseKey checks that a key that is accepted can be used and is stored as it was.
func FuzzParseKey(f *testing.F) {
	document, err := newKey(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(document)
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, document []byte) {
		key, err := ParseKey(document)
		if err != nil {
			return
		}
		if Verify(key.Public(), proofOf(t, key, someClaims()), someClaims()) != nil {
			t.Fatal("the key cannot be used")
		}
	})
}
