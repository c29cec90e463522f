package register

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// tokenFor is a token of the agent's account with this lifetime. All tokens have another serial.
func tokenFor(serial int, lifetime time.Duration) string { return tokenOfAge(0, serial, lifetime) }

// tokenOfAge is such a token that had been issued this long before the test began.
func tokenOfAge(age time.Duration, serial int, lifetime time.Duration) string {
	start := 946684800 - int64(age/time.Second) // the clock of synctest starts in the year 2000
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"jti":"%d","kubernetes.io":{"namespace":"cluster-fleet-default-a-0123456789ab","serviceaccount":{"name":"request-1-r1","uid":"u"}}}`,
		start, start+int64(lifetime/time.Second), serial)
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

// lifetimeInDocument makes the hub publish this lifetime of credentials.
func (w *world) lifetimeInDocument(lifetime time.Duration) {
	k := w.keeper()
	k.keep(w, func(data map[string][]byte) { data["serial"] = []byte("5") })
	w.document = k.sign(w, identity.Document{URL: hubURL, CA: w.ca, Lifetime: lifetime, Serial: 5, AddressSerial: 5})
}

func TestTokenThatExpires_IsRenewedWithoutARestart(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		lifetime, run time.Duration
		prepare       func(w *world)
		renewed       int
		last          time.Duration
	}{
		// after 1.2 hours, because its age is unknown, and then every 15 hours
		"a day":                            {lifetime: day, run: 3 * day, renewed: 5, last: day},
		"ten minutes":                      {lifetime: 10 * time.Minute, run: 8 * time.Minute, renewed: 2, last: 10 * time.Minute},
		"a token that does not expire":     {lifetime: protocol.TokenLifetime, run: 30 * day},
		"the hub has lowered the lifetime": {lifetime: day, run: 4 * time.Hour, renewed: 1, last: 6 * time.Hour, prepare: func(w *world) { w.renewal.limit = 6 * time.Hour }},
		"the hub grants no renewal":        {lifetime: day, run: 6 * time.Hour, prepare: func(w *world) { w.renewal.limit = time.Second }},
		"the hub rejects the new token":    {lifetime: day, run: 6 * time.Hour, prepare: func(w *world) { w.renewal.broken = true }},
		"the hub is down when it is due": {lifetime: day, run: 6 * time.Hour, renewed: 1, last: day, prepare: func(w *world) {
			w.later(1*time.Hour, "hub", "is down", func() { w.down = true })
			w.later(4*time.Hour, "hub", "is back", func() { w.down = false })
		}},
		"the hub has raised the lifetime": {lifetime: day, run: 4 * time.Hour, renewed: 1, last: 7 * day, prepare: func(w *world) { w.lifetimeInDocument(7 * day) }},
		"credentials of the hub no longer expire": {lifetime: day, run: 30 * day, renewed: 1, last: protocol.TokenLifetime,
			prepare: func(w *world) { w.lifetimeInDocument(0) }},
		"a hub that denies the lifetime of its document": {lifetime: day, run: 4 * time.Hour, renewed: 1, last: day, prepare: func(w *world) {
			w.lifetimeInDocument(0)
			w.renewal.limit = day
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

// A webhook of the agent's own cluster refuses writes of Secrets for 30 hours, and a token lasts for 24. A full etcd would also refuse
// to renew the Lease, which ends the process.
func TestRenewedTokenThatCannotBeStored_IsUsedAtOnceAndStoredLater(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		prepare func(w *world)
		runs    []time.Duration // of one process each
		serves  int
		renewed int
	}{
		"cluster accepts writes again after the first token has expired": {
			runs: []time.Duration{31 * time.Hour}, serves: 1, renewed: 2,
		},
		"hub rejects a request after the first token has expired: the renewed token is tested": {
			runs: []time.Duration{31 * time.Hour}, serves: 1, renewed: 2,
			prepare: func(w *world) {
				w.later(25*time.Hour, "hub", "rejects a request", func() { w.turnAway(http.StatusUnauthorized, nil) })
			},
		},
		"work is restarted for another interval": {
			runs: []time.Duration{31 * time.Hour}, serves: 2, renewed: 2,
			prepare: func(w *world) {
				w.later(25*time.Hour, "user", "changes the interval", func() {
					w.configure(config.Agent{GarbageCollectionInterval: metav1.Duration{Duration: time.Hour}})
				})
			},
		},
		"process is restarted while the stored token is valid": {
			runs: []time.Duration{20 * time.Hour, 11 * time.Hour}, serves: 2, renewed: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := tokenFor(0, day)
				w.accounts[first] = true
				w.identitySecret(first)
				var isDenied atomic.Bool
				isDenied.Store(true)
				w.local.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					return isDenied.Load(), nil, errors.New("admission webhook \"secrets.example\" denied the request")
				})
				var used string
				w.later(19*time.Hour, "hub", "looks at the token in use", func() { used = w.token() })
				w.later(day, "hub", "lets the first token expire", func() { delete(w.accounts, first) })
				w.later(30*time.Hour, "webhook", "allows writes again", func() { isDenied.Store(false) })
				if test.prepare != nil {
					test.prepare(w)
				}
				for _, d := range test.runs {
					w.run(d)
				}
				if used == first || !w.accounts[used] {
					t.Errorf("before the cluster accepts writes, the agent uses token %s, want a renewed one", used)
				}
				if served := w.times("serves fleet-default"); served != test.serves || w.renewal.serial != test.renewed {
					t.Errorf("served %d times, want %d; %d tokens requested, want %d:\n%s", served, test.serves, w.renewal.serial, test.renewed, strings.Join(w.lines, "\n"))
				}
				if got, want := w.storedToken(), tokenFor(test.renewed, day); got != want {
					t.Errorf("stored token %s, want the last one, %s", got, want)
				}
			})
		})
	}
}

// The work does not notice an expired token while it sends no requests.
func TestTokenThatExpiredBeforeItsRenewal_IdentityIsTested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper().keep(w)
		first := tokenFor(0, 10*time.Minute)
		w.accounts[first] = true
		w.identitySecret(first)
		w.later(5*time.Minute, "hub", "is down", func() { w.down = true })
		w.later(11*time.Minute, "hub", "is back, and all tokens have expired", func() { w.down = false; clear(w.accounts) })
		w.run(30 * time.Minute)
		if len(w.requests) != 1 || w.times("serves fleet-default") != 2 {
			t.Errorf("%d requests, want one; served %d times, want twice:\n%s", len(w.requests), w.times("serves fleet-default"), strings.Join(w.lines, "\n"))
		}
	})
}

// The chart delivers a bootstrap secret with the CA first, and then the mode that requires it. A renewal between them does not use
// the secret.
func TestBootstrapSecretBeforeARenewal_IsKeptForTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := tokenFor(0, 10*time.Minute)
		w.accounts[first] = true
		w.identitySecret(first, func(a *hubclient.Access) { a.CA = nil })
		w.configure(config.Agent{AgentTLSMode: config.TLSModeSystemStore})
		due := registering.RenewIn(10*time.Minute, 10*time.Minute, false, pace.FineChance(zeros{}))
		w.later(due-time.Second, "admin", "delivers the CA", func() { w.bootstrapSecret("import-1") })
		w.later(due+2*time.Second, "admin", "makes the mode strict", func() { w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict}) })
		w.run(5 * time.Minute)
		if w.renewal.accepted != 1 || w.storedToken() != tokenFor(1, 10*time.Minute) || !bytes.Equal(w.hub.CAData, w.ca) {
			t.Errorf("renewed %d times, served with CA %q:\n%s", w.renewal.accepted, w.hub.CAData, strings.Join(w.lines, "\n"))
		}
		w.expectMissing(names.AgentBootstrap)
	})
}

// A cluster that was switched off overnight is on again half an hour before its token expires.
func TestTokenThatIsNearlyExpiredAtTheStart_IsRenewedInHalfOfTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := tokenOfAge(23*time.Hour+30*time.Minute, 0, 24*time.Hour)
		w.accounts[first] = true
		w.identitySecret(first)
		w.later(15*time.Minute-time.Second, "test", "looks", func() {
			if w.renewal.accepted != 0 {
				t.Error("renewed before half of the rest has passed")
			}
		})
		w.run(16 * time.Minute)
		if w.renewal.accepted != 1 || w.times("serves fleet-default") != 1 {
			t.Errorf("renewed %d times, want once:\n%s", w.renewal.accepted, strings.Join(w.lines, "\n"))
		}
	})
}

// The hub does not answer when a token of ten minutes is due, and answers again half a minute before it expires.
func TestShortTokenDuringAnOutage_IsRenewedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := tokenFor(0, 10*time.Minute)
		w.accounts[first] = true
		w.identitySecret(first)
		renewed := registering.RenewIn(10*time.Minute, 10*time.Minute, false, pace.FineChance(zeros{}))
		w.later(renewed+5*time.Minute, "hub", "is down", func() { w.down = true })
		w.later(renewed+9*time.Minute+15*time.Second, "hub", "is back", func() { w.down = false })
		w.later(renewed+10*time.Minute, "hub", "lets the token expire", func() { delete(w.accounts, tokenFor(1, 10*time.Minute)) })
		w.run(20 * time.Minute)
		if w.times("serves fleet-default") != 1 || w.times("no longer serves") != 1 || w.times("401") > 0 {
			t.Errorf("the token expired:\n%s", strings.Join(w.lines, "\n"))
		}
	})
}

// A webhook or a key service of the agent's own cluster fails. The Lease can still be renewed, so that the process stays.
func TestTokenWhileTheAgentsObjectsCannotBeRead_IsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := tokenFor(0, 24*time.Hour)
		w.accounts[first] = true
		w.identitySecret(first)
		w.local.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			now := time.Since(w.start)
			return now > 5*time.Hour && now < 40*time.Hour, nil, errors.New("unable to transform key")
		})
		w.later(6*time.Hour, "hub", "rejects a request", func() { w.turnAway(http.StatusForbidden, nil) })
		var renewed int
		w.later(39*time.Hour, "hub", "counts its renewals", func() { renewed = w.renewal.accepted })
		w.run(42 * time.Hour)
		if renewed != 3 || w.times("serves fleet-default") != 1 {
			t.Errorf("renewed %d times in 39 hours, want 3; served %d times, want once:\n%s", renewed, w.times("serves fleet-default"), strings.Join(w.lines, "\n"))
		}
	})
}

// A bootstrap secret cannot be used up, for one of several reasons. A token lasts for 24 hours, if not said otherwise.
func TestTokenWhileABootstrapSecretStays_IsRenewedAndStored(t *testing.T) {
	refused := errors.New("admission webhook \"secrets.example\" denied the request")
	// silent delivers the address of a hub that does not answer yet.
	silent := func(w *world, at time.Duration) {
		w.down = true // what answers is at movedURL here
		w.later(at, "admin", "upgrades the chart ahead of the move", func() { w.bootstrapSecret("import-1") })
	}
	refuse := func(w *world, verb string, until time.Duration) {
		w.local.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return time.Since(w.start) < until, nil, refused
		})
	}
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		prepare  func(w *world)
		lifetime time.Duration
		run      time.Duration
		renewed  int
		serves   int
	}{
		"new address does not answer": {run: 17 * time.Hour, renewed: 2, serves: 1, prepare: func(w *world) { silent(w, time.Minute) }},
		"new address asks for five minutes, a token lasts ten": {run: time.Hour, lifetime: 10 * time.Minute, renewed: 10, serves: 1, prepare: func(w *world) {
			w.outage = apierrors.NewTooManyRequests("too many requests", 300)
			silent(w, time.Minute)
		}},
		"token is not stored when the new address does not answer": {run: 10 * time.Hour, renewed: 1, serves: 1, prepare: func(w *world) {
			refuse(w, "update", 4*time.Hour)
			silent(w, 3*time.Hour)
		}},
		"deletion is refused": {run: 17 * time.Hour, renewed: 2, serves: 1, prepare: func(w *world) {
			refuse(w, "delete", 30*day)
			w.later(time.Minute, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-1", at(movedURL+"/")) })
		}},
		"deletion is refused, and the token is not stored at first": {run: 10 * time.Hour, renewed: 1, serves: 1, prepare: func(w *world) {
			refuse(w, "delete", 30*day)
			refuse(w, "update", 4*time.Hour)
			w.later(time.Minute, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-1", at(movedURL+"/")) })
		}},
		"new address cannot be stored at first": {run: 17 * time.Hour, renewed: 2, serves: 2, prepare: func(w *world) {
			refuse(w, "update", 16*time.Hour+30*time.Minute)
			w.later(time.Minute, "admin", "upgrades the chart with another address", func() { w.bootstrapSecret("import-1") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				lifetime := cmp.Or(test.lifetime, day)
				first := tokenFor(0, lifetime)
				w.accounts[first] = true
				w.identitySecret(first, func(a *hubclient.Access) { a.Server = movedURL })
				test.prepare(w)
				w.run(test.run)
				if served := w.times("serves fleet-default"); w.renewal.serial != test.renewed || served != test.serves {
					t.Errorf("renewed %d times, want %d; served %d times, want %d:\n%s", w.renewal.serial, test.renewed, served, test.serves, strings.Join(w.lines, "\n"))
				}
				if got, want := w.storedToken(), tokenFor(test.renewed, lifetime); got != want {
					t.Errorf("stored token %s, want %s", got, want)
				}
			})
		})
	}
}

// While the agent waits to delete a bootstrap secret or to write an address, the hub rejects a request.
func TestRejectedRequestWhileAWriteIsRefused_TestsTheIdentity(t *testing.T) {
	for name, test := range map[string]struct{ verb, server string }{
		"deletion of the bootstrap secret": {"delete", hubURL},
		"update of the identity":           {"update", movedURL},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.accounts["account-0"] = true
				w.identitySecret("account-0")
				w.failFor(math.MaxInt, test.verb)
				w.later(time.Minute, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-1", at(test.server)) })
				w.later(time.Hour, "hub", "rejects a request", func() { w.turnAway(http.StatusUnauthorized, nil) })
				w.run(time.Hour + doubtPause)
				if tests := w.times("3600.00s  [agent]  LIST"); tests != 1 {
					t.Errorf("the identity was tested %d times when the hub rejected a request, want once:\n%s", tests, strings.Join(w.lines, "\n"))
				}
			})
		})
	}
}

// The agent's own cluster refuses to store a renewed token or a new address. When it no longer does, the Secret is no longer the
// one that was read, and the watch has not reported that yet.
func TestStoredIdentity_IsNotOverwrittenAfterAnotherChange(t *testing.T) {
	replaced := apierrors.NewConflict(corev1.Resource("secrets"), names.Agent, errors.New("changed"))
	replace := func(w *world) { w.accounts["account-9"] = true; w.identitySecret("account-9") }
	expectNewer := func(w *world) {
		if got := w.storedToken(); got != "account-9" {
			w.t.Errorf("stored token %s, want the one of the newer Secret", got)
		}
	}
	for name, test := range map[string]struct {
		prepare func(w *world)
		err     error
		change  func(w *world)
		check   func(w *world)
	}{
		"renewed token, Secret was replaced": {err: replaced, change: replace, check: expectNewer},
		"renewed token, Secret was deleted": {
			err:    apierrors.NewNotFound(corev1.Resource("secrets"), names.Agent),
			change: func(w *world) { w.remove(names.Agent) },
			check:  func(w *world) { w.expectMissing(names.Agent) },
		},
		"new address, Secret was replaced": {
			prepare: func(w *world) { w.bootstrapSecret("import-1", at(movedURL)) },
			err:     replaced, change: replace, check: expectNewer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := tokenFor(0, 24*time.Hour)
				w.accounts[first] = true
				w.identitySecret(first)
				if test.prepare != nil {
					test.prepare(w)
				}
				updates := 0
				w.local.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					switch updates++; {
					case updates < 5:
						return true, nil, errors.New("admission webhook \"secrets.example\" denied the request")
					case updates == 5:
						test.change(w)
						return true, nil, test.err
					}
					return false, nil, nil
				})
				w.run(3 * time.Hour)
				if updates < 5 {
					t.Fatalf("%d updates", updates)
				}
				test.check(w)
			})
		})
	}
}

// Writes are refused, a token lasts for ten minutes, and the interval changes while the agent waits to store one.
func TestChangedInterval_IsTakenWhileATokenIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := tokenFor(0, 623*time.Second)
		w.accounts[first] = true
		w.identitySecret(first)
		w.failFor(math.MaxInt, "update")
		const every, run = 13100 * time.Millisecond, 5 * time.Hour
		changes := 0
		for at := every; at < run; at += every {
			w.later(at, "user", "changes the interval", func() {
				changes++
				w.configure(config.Agent{GarbageCollectionInterval: metav1.Duration{Duration: time.Duration(changes) * time.Hour}})
			})
		}
		w.run(run)
		if served := w.times("serves fleet-default"); served != changes+1 {
			t.Errorf("served %d times, want once for each of %d changes and before", served, changes)
		}
	})
}
