package protocol_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

func tokenOf(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
}

func TestRenewalOf(t *testing.T) {
	const account = `"kubernetes.io":{"namespace":"ns","serviceaccount":{"name":"a","uid":"u"}}`
	daily := protocol.Renewal{Namespace: "ns", Account: "a", Lifetime: 24 * time.Hour}
	for name, test := range map[string]struct {
		token string
		want  protocol.Renewal
		ok    bool
	}{
		"a day":                      {tokenOf(`{"iat":1000,"exp":87400,` + account + `}`), daily, true},
		"136 years":                  {tokenOf(`{"iat":1000,"exp":4294968295,` + account + `}`), protocol.Renewal{}, false},
		"no expiry":                  {tokenOf(`{"iat":1000,` + account + `}`), protocol.Renewal{}, false},
		"no issue time":              {tokenOf(`{"exp":87400,` + account + `}`), protocol.Renewal{}, false},
		"expires before its issue":   {tokenOf(`{"iat":87400,"exp":1000,` + account + `}`), protocol.Renewal{}, false},
		"no account":                 {tokenOf(`{"iat":1000,"exp":87400,"kubernetes.io":{"namespace":"ns"}}`), protocol.Renewal{}, false},
		"no namespace":               {tokenOf(`{"iat":1000,"exp":87400,"kubernetes.io":{"serviceaccount":{"name":"a"}}}`), protocol.Renewal{}, false},
		"token of a token Secret":    {tokenOf(`{"kubernetes.io/serviceaccount/service-account.uid":"u"}`), protocol.Renewal{}, false},
		"claims are no JSON":         {tokenOf(`{`), protocol.Renewal{}, false},
		"claims are not base64":      {"e30.?.sig", protocol.Renewal{}, false},
		"two parts":                  {"e30.e30", protocol.Renewal{}, false},
		"a megabyte of dots":         {strings.Repeat(".", 1<<20), protocol.Renewal{}, false},
		"lifetime beyond all bounds": {tokenOf(`{"iat":1,"exp":1e300,` + account + `}`), protocol.Renewal{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := protocol.RenewalOf(test.token)
			rulestest.ExpectEqual(t, "renewal", got, test.want)
			rulestest.ExpectEqual(t, "renewable", ok, test.ok)
			rulestest.ExpectEqual(t, "expires", !protocol.ExpiryOf(test.token).IsZero(), test.ok)
		})
	}
}

// FuzzRenewalOf checks that every lifetime that is returned can be requested.
func FuzzRenewalOf(f *testing.F) {
	f.Add(tokenOf(`{"iat":1000,"exp":87400,"kubernetes.io":{"namespace":"ns","serviceaccount":{"name":"a","uid":"u"}}}`))
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		got, ok := protocol.RenewalOf(token)
		if ok && (got.Lifetime < time.Second || got.Lifetime > protocol.TokenLifetime || got.Account == "" || got.Namespace == "") {
			t.Fatalf("renewal %+v", got)
		}
	})
}
