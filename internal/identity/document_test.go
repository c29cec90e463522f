package identity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

func someDocument() Document {
	return Document{URL: "https://hub.example:6443", CA: []byte("PEM"), Lifetime: 24 * time.Hour, Serial: 1764072000, AddressSerial: 1764071000}
}

func documentOf(t testing.TB, hub Key, d Document) string {
	t.Helper()
	text, err := hub.SignDocument(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDocument_IsReadAsItWasSigned(t *testing.T) {
	hub := newKey(t)
	withTokens := someDocument()
	for _, workspace := range []string{"fleet-default", "fleet-local"} {
		if err := withTokens.AddToken(hub.WorkspaceKey(workspace), "token of "+workspace); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]Document{
		"everything":           withTokens,
		"only a serial":        {Serial: 1},
		"without a CA":         {URL: "https://hub", Serial: 1},
		"lasting credentials":  {URL: "https://hub", CA: []byte("PEM"), Serial: 7, AddressSerial: 7},
		"address as of before": {URL: "https://hub", Serial: 7, AddressSerial: 1},
		"large hub":            {URL: "https://hub", Serial: 7, RecoverySpread: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := VerifyDocument(hub.Public(), documentOf(t, hub, want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTokenInDocument_IsReadOnlyWithTheKeyOfItsWorkspace(t *testing.T) {
	hub, d := newKey(t), someDocument()
	if err := d.AddToken(hub.WorkspaceKey("fleet-default"), "jwt"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		key  []byte
		want string
	}{
		"its workspace":     {hub.WorkspaceKey("fleet-default"), "jwt"},
		"another workspace": {hub.WorkspaceKey("fleet-local"), ""},
		"another hub":       {newKey(t).WorkspaceKey("fleet-default"), ""},
		"no key":            {nil, ""},
	} {
		if got, err := d.Token(test.key); err != nil || got != test.want {
			t.Errorf("%s: token %q, error %v; want %q", name, got, err, test.want)
		}
	}
	for entry, sealed := range d.Tokens {
		if strings.Contains(entry+sealed, "default") || strings.Contains(sealed, "jwt") {
			t.Errorf("the entry %s tells the workspace or its token", entry)
		}
		d.Tokens[entry] = strings.Replace(sealed, ".", ".A", 1)
	}
	if _, err := d.Token(hub.WorkspaceKey("fleet-default")); !errors.Is(err, ErrSealed) {
		t.Errorf("damaged token: error %v, want %v", err, ErrSealed)
	}
	if err := d.AddToken(nil, "jwt"); !errors.Is(err, ErrSealed) {
		t.Errorf("token without a key: error %v, want %v", err, ErrSealed)
	}
}

func TestForgedDocument_IsRejected(t *testing.T) {
	hub := newKey(t)
	text := documentOf(t, hub, someDocument())
	tests := forged(t, hub, documentType, text, "hub.example", "bad.example")
	tests["document of another hub"] = documentOf(t, newKey(t), someDocument())
	for name, content := range map[string]string{
		"no serial":                  `{"url":"https://hub"}`,
		"negative serial":            `{"serial":-1}`,
		"serial of the address is 2": `{"serial":1,"addressSerial":2}`,
		"negative lifetime":          `{"serial":1,"lifetimeSeconds":-1}`,
		"negative recovery spread":   `{"serial":1,"recoverySpreadSeconds":-1}`,
		"URL without TLS":            `{"serial":1,"url":"http://hub"}`,
		"URL without a host":         `{"serial":1,"url":"https://"}`,
		"URL of a file":              `{"serial":1,"url":"file:///etc/passwd"}`,
		"long URL":                   `{"serial":1,"url":"https://` + strings.Repeat("a", maxURL) + `"}`,
		"CA is not base64":           `{"serial":1,"ca":"?"}`,
		"CA of a megabyte":           `{"serial":1,"ca":"` + strings.Repeat("AAAA", 50<<10) + `"}`,
	} {
		tests[name] = signed(t, jose.ES256, hub.private, documentType, []byte(content))
	}
	expectForged(t, tests, ErrDocument, func(text string) error {
		_, err := VerifyDocument(hub.Public(), text)
		return err
	})
	if _, err := VerifyDocument("", text); !errors.Is(err, ErrDocument) && !errors.Is(err, ErrKey) {
		t.Errorf("no key of the hub: error %v", err)
	}
}

func TestInvalidDocument_IsNotSigned(t *testing.T) {
	for name, change := range map[string]func(*Document){
		"no serial":               func(d *Document) { d.Serial = 0 },
		"address of a later time": func(d *Document) { d.AddressSerial = d.Serial + 1 },
		"negative lifetime":       func(d *Document) { d.Lifetime = -time.Second },
		"negative spread":         func(d *Document) { d.RecoverySpread = -time.Second },
		"URL without TLS":         func(d *Document) { d.URL = "http://hub" },
		"CA of 200 KiB":           func(d *Document) { d.CA = make([]byte, 200<<10) },
		"tokens of two megabytes": func(d *Document) { d.Tokens = map[string]string{"a": strings.Repeat("x", 2<<20)} },
	} {
		t.Run(name, func(t *testing.T) {
			d := someDocument()
			change(&d)
			if _, err := newKey(t).SignDocument(d); !errors.Is(err, ErrDocument) {
				t.Errorf("error %v, want %v", err, ErrDocument)
			}
		})
	}
	var none Key
	if _, err := none.SignDocument(someDocument()); !errors.Is(err, ErrKey) {
		t.Errorf("the zero key signs: %v", err)
	}
}

// FuzzVerifyDocument checks that only documents of the hub are accepted, that those can be signed again, and that nothing
// panics.
func FuzzVerifyDocument(f *testing.F) {
	hub := newKey(f)
	text := documentOf(f, hub, someDocument())
	f.Add(text, []byte(`{"serial":1,"url":"https://hub","tokens":{"a":"b"}}`))
	f.Add(unsigned(`{"alg":"none","typ":"`+documentType+`"}`, []byte(`{"serial":1}`), ""), []byte(`{}`))
	f.Add("..", []byte(`{"serial":1,"lifetimeSeconds":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, foreign string, content []byte) {
		if _, err := VerifyDocument(hub.Public(), foreign); err == nil && foreign != text {
			t.Fatalf("a document that was never signed: %q", foreign)
		}
		own, err := hub.sign(documentType, content)
		if err != nil {
			return
		}
		d, err := VerifyDocument(hub.Public(), own)
		if err != nil {
			return
		}
		again, err := VerifyDocument(hub.Public(), documentOf(t, hub, d))
		if diff := cmp.Diff(d, again); err != nil || diff != "" {
			t.Fatalf("error %v, signed again (-before +after):\n%s", err, diff)
		}
	})
}
