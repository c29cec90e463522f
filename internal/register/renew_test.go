package register

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
)

// tokenFor is a token of the agent's account with this lifetime. All tokens have another serial.
func tokenFor(serial int, lifetime time.Duration) string {
	claims := fmt.Sprintf(`{"iat":1000,"exp":%d,"jti":"%d","kubernetes.io":{"namespace":"cluster-fleet-default-a-0123456789ab","serviceaccount":{"name":"request-1-r1","uid":"u"}}}`,
		1000+int64(lifetime/time.Second), serial)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
}

// storedToken is the token in Secret fleet-agent.
func (w *world) storedToken() string {
	w.t.Helper()
	secret, err := w.local.CoreV1().Secrets(agentNS).Get(w.t.Context(), names.Agent, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	identity, err := protocol.ParseIdentity(secret.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	access, err := hubclient.ParseKubeconfig(identity.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	return access.Token
}

// times counts the lines of the story with a text.
func (w *world) times(text string) (n int) {
	for _, line := range w.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func TestTokenThatExpires_IsRenewedWithoutARestart(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		lifetime, run time.Duration
		prepare       func(w *world)
		renewed       int
		last          time.Duration
	}{
		// after 2.4 hours, because its age is unknown, and then every 15 hours
		"a day":                            {lifetime: day, run: 3 * day, renewed: 5, last: day},
		"ten minutes":                      {lifetime: 10 * time.Minute, run: 8 * time.Minute, renewed: 2, last: 10 * time.Minute},
		"a token that does not expire":     {lifetime: protocol.TokenLifetime, run: 30 * day},
		"the hub has lowered the lifetime": {lifetime: day, run: 6 * time.Hour, renewed: 1, last: 6 * time.Hour, prepare: func(w *world) { w.renewal.limit = 6 * time.Hour }},
		"the hub grants no renewal":        {lifetime: day, run: 6 * time.Hour, prepare: func(w *world) { w.renewal.limit = time.Second }},
		"the hub rejects the new token":    {lifetime: day, run: 6 * time.Hour, prepare: func(w *world) { w.renewal.broken = true }},
		"the hub is down when it is due": {lifetime: day, run: 6 * time.Hour, renewed: 1, last: day, prepare: func(w *world) {
			w.later(2*time.Hour, "hub", "is down", func() { w.down = true })
			w.later(4*time.Hour, "hub", "is back", func() { w.down = false })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := tokenFor(0, test.lifetime)
				w.accounts[first] = true
				w.identitySecret(first)
				if test.prepare != nil {
					test.prepare(w)
				}
				w.run(test.run)
				if w.renewal.accepted != test.renewed || w.times("serves fleet-default") != 1 {
					t.Errorf("renewed %d times, want %d; served %d times, want once:\n%s", w.renewal.accepted, test.renewed, w.times("serves fleet-default"), strings.Join(w.lines, "\n"))
				}
				want := first
				if test.renewed > 0 {
					want = tokenFor(w.renewal.serial, test.last)
				}
				if got := w.storedToken(); got != want {
					t.Errorf("stored token %s, want %s", got, want)
				}
			})
		})
	}
}

func TestRenewIn_StaysWithinTheShareOfTheLifetime(t *testing.T) {
	tests := map[string]struct {
		isNew bool
		drawn byte
		want  time.Duration
	}{
		"a new token at the earliest":                  {isNew: true, drawn: 0, want: 12 * time.Hour},
		"a new token at the latest":                    {isNew: true, drawn: 255, want: 12*time.Hour + 6*time.Hour*255/256},
		"after a start at the earliest: not at once":   {drawn: 0, want: 24 * time.Hour * 2 / 100},
		"after a start at the latest: before it ended": {drawn: 255, want: 24*time.Hour*2/100 + 24*time.Hour*18/100*255/256},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := renewIn(24*time.Hour, tc.isNew, bytes.NewReader([]byte{tc.drawn})); got != tc.want {
				t.Errorf("renewIn = %v, want %v", got, tc.want)
			}
		})
	}
}
