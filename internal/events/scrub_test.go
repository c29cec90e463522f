package events

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestScrub(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
	tests := map[string]struct{ in, want string }{
		"a sentence stays":                        {"the API server does not answer: check its address", "the API server does not answer: check its address"},
		"a token goes":                            {"token " + jwt + " refused", "token [redacted] refused"},
		"one without a signature, too":            {"eyJhbGciOiJub25l.eyJzdWIiOiJ4", "[redacted]"},
		"a bearer of any kind":                    {"Authorization: bearer abc123DEF~x==", "Authorization: [redacted]"},
		"a private key":                           {"key:\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nend", "key:\n[redacted]\nend"},
		"one that is cut off":                     {"-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]"},
		"a certificate is none":                   {"-----BEGIN CERTIFICATE-----\nMIIE", "-----BEGIN CERTIFICATE-----\nMIIE"},
		"a password in an address":                {"GET https://me:secret@host/path", "GET https[redacted]host/path"},
		"an address with a port stays":            {"https://host:6443/path@x", "https://host:6443/path@x"},
		"text that is no text becomes some":       {"a\xffb", "a�b"},
		"words that begin like a token stay":      {"eyJ is how they begin", "eyJ is how they begin"},
		"a bearer without anything stays a word":  {"the bearer of news", "the bearer of news"},
		"a certificate error that names accounts": {"x509: unknown authority (system:serviceaccount:ns:name)", "x509: unknown authority (system:serviceaccount:ns:name)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := scrub(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAMessageIsCutWhereACharacterEnds(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("ü", 5000), "x" + strings.Repeat("ü", 5000)} {
		got := scrub(text)
		if len(got) > messageLimit || len(got) < messageLimit-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
		}
	}
	if exact := strings.Repeat("x", messageLimit); scrub(exact) != exact {
		t.Error("a message of just that length is cut")
	}
}
