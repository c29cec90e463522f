package protocol_test

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
)

func TestParseAccountToken(t *testing.T) {
	tests := map[string]struct {
		token string
		want  protocol.AccountToken
	}{
		"a token of the TokenRequest API": {
			token: rulestest.BoundJWT("uid-1", rulestest.Noon()),
			want:  protocol.AccountToken{AccountUID: "uid-1", Expires: rulestest.Noon()},
		},
		"a token of the TokenRequest API without an expiry": {
			token: rulestest.BoundJWT("uid-1", time.Time{}),
			want:  protocol.AccountToken{AccountUID: "uid-1"},
		},
		"a token of a token Secret never ends": {
			token: rulestest.SecretJWT("uid-2"),
			want:  protocol.AccountToken{AccountUID: "uid-2"},
		},
		"an expiry of zero counts as none": {
			token: rulestest.JWT(map[string]any{"exp": 0, "kubernetes.io/serviceaccount/service-account.uid": "uid-3"}),
			want:  protocol.AccountToken{AccountUID: "uid-3"},
		},
		"a fraction of a second is cut off": {
			token: rulestest.JWT(map[string]any{"exp": 1.9, "kubernetes.io/serviceaccount/service-account.uid": "uid-3"}),
			want:  protocol.AccountToken{AccountUID: "uid-3", Expires: time.Unix(1, 0).UTC()},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pure2(t, protocol.ParseAccountToken, test.token)
			if err != nil {
				t.Fatal(err)
			}
			rulestest.ExpectEqual(t, "token", got, test.want)
		})
	}
}

func TestParseAccountToken_InvalidTokensAreErrors(t *testing.T) {
	tests := map[string]string{
		"nothing":                        "",
		"text":                           "letmein",
		"two parts":                      "a.b",
		"four parts":                     rulestest.BoundJWT("uid-1", rulestest.Noon()) + ".d",
		"claims that are not base64":     "a.!.c",
		"claims with padding":            "a." + base64.URLEncoding.EncodeToString([]byte(`{"a":1}`)) + ".c",
		"claims that are not JSON":       "a." + base64.RawURLEncoding.EncodeToString([]byte(`{`)) + ".c",
		"claims of the wrong type":       rulestest.JWT(map[string]any{"kubernetes.io": "uid-1"}),
		"an expiry that is not a number": rulestest.JWT(map[string]any{"exp": "soon", "kubernetes.io/serviceaccount/service-account.uid": "u"}),
		"an expiry out of range":         rulestest.JWT(map[string]any{"exp": 1e300, "kubernetes.io/serviceaccount/service-account.uid": "u"}),
		"a token of a user":              rulestest.JWT(map[string]any{"sub": "alice", "exp": 1}),
		"an account without a UID":       rulestest.BoundJWT("", rulestest.Noon()),
		"a redacted token":               "<JWT>",
	}
	for name, token := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := protocol.ParseAccountToken(token)
			if !errors.Is(err, protocol.ErrNotAToken) {
				t.Errorf("error %v, want ErrNotAToken", err)
			}
			rulestest.ExpectEqual(t, "token", got, protocol.AccountToken{})
		})
	}
}

// The API accepts lifetimes from ten minutes to 2^32 seconds.
func TestTokenLifetimes_AreWithinTheLimitsOfTheAPI(t *testing.T) {
	if most := (1 << 32) * time.Second; protocol.TokenLifetime > most || protocol.TokenLifetime < most-time.Minute {
		t.Errorf("TokenLifetime is %s, want just below %s", protocol.TokenLifetime, most)
	}
	rulestest.ExpectEqual(t, "MinTokenLifetime", protocol.MinTokenLifetime, 10*time.Minute)
}

func TestKnowsIdentity(t *testing.T) {
	accounts := []types.UID{"u-1", "u-2"}
	for name, test := range map[string]struct {
		token string
		want  bool
	}{
		"token of a live account":    {rulestest.BoundJWT("u-2", rulestest.Noon()), true},
		"token of a deleted account": {rulestest.BoundJWT("u-3", rulestest.Noon()), false},
		"no token":                   {"", false},
		"text that is no token":      {"letmein", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := supervision.KnowsIdentity(test.token, accounts); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestSignerOf(t *testing.T) {
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	tests := map[string]struct{ token, want string }{
		"a key and an issuer":      {encode(`{"kid":"k1"}`) + "." + encode(`{"iss":"https://hub"}`) + ".s", "k1 https://hub"},
		"no key":                   {encode(`{}`) + "." + encode(`{"iss":"i"}`) + ".s", " i"},
		"no token":                 {"x", ""},
		"no claims":                {encode(`{"kid":"k1"}`), ""},
		"claims that are not JSON": {encode(`{"kid":"k1"}`) + "." + encode(`x`) + ".s", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := protocol.SignerOf(test.token); got != test.want {
				t.Errorf("signer %q, want %q", got, test.want)
			}
		})
	}
}

// The issuers are those of token Secrets and of TokenRequest.
func TestSigningKeyOf_IsTheSameForAllTokensOfAHub(t *testing.T) {
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, test := range map[string]struct{ token, want string }{
		"of a Secret":        {encode(`{"kid":"k1"}`) + "." + encode(`{"iss":"kubernetes/serviceaccount"}`) + ".s", "k1"},
		"of a TokenRequest":  {encode(`{"kid":"k1"}`) + "." + encode(`{"iss":"https://hub"}`) + ".s", "k1"},
		"no name of the key": {encode(`{}`) + "." + encode(`{"iss":"i"}`) + ".s", ""},
		"no token":           {"x", ""},
		"empty":              {"", ""},
	} {
		if got := protocol.SigningKeyOf(test.token); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
