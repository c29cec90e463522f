package register

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

const otherURL = "https://other.example:6443"

// signed is a hub document with this address, and with the recovery token of now.
func (k *keeper) signed(w *world, serial int64, url string, ca []byte) string {
	return k.sign(w, identity.Document{URL: url, CA: ca, Serial: serial, AddressSerial: serial})
}

// sign adds the recovery token of now to a document and signs it.
func (k *keeper) sign(w *world, document identity.Document) string {
	if err := document.AddToken(k.hub.WorkspaceKey("fleet-default"), w.recoveryToken); err != nil {
		w.t.Error(err)
	}
	text, err := k.hub.SignDocument(document)
	if err != nil {
		w.t.Error(err)
	}
	return text
}

// renewRecoveryToken replaces the recovery token, as after a loss of the API server's signing key.
func (w *world) renewRecoveryToken() {
	delete(w.tokens, w.recoveryToken)
	w.recoveryToken = rulestest.BoundJWT("recovery-account", time.Unix(1<<40, 0))
	w.tokens[w.recoveryToken] = true
}

// whenHubChanges plays how the hub changes while an agent serves that has stored the document with serial 5. act returns
// the document that the agent has stored in the end.
func whenHubChanges(t *testing.T, name string, act func(w *world, k *keeper) identity.Document) {
	t.Helper()
	inWorld(t, name, func(_ *testing.T, w *world) {
		k := w.keeper()
		k.keep(w, func(data map[string][]byte) { data["serial"] = []byte("5") })
		w.accounts["old"] = true
		w.identitySecret("old")
		w.document = k.signed(w, 5, hubURL, w.ca)
		stored := act(w, k)
		w.run(time.Hour)
		want := k.kept(w)
		want.APIServerURL, want.APIServerCA, want.Serial = stored.URL, stored.CA, stored.Serial
		w.expectKept(want)
	})
}

func TestHubDocument_WhenTheHubChanges(t *testing.T) {
	whenHubChanges(t, "document-new-ca-with-overlap", func(w *world, k *keeper) identity.Document {
		both := append(append([]byte{}, w.ca...), newCA(t)...)
		w.document = k.signed(w, 6, hubURL, both)
		return identity.Document{URL: hubURL, CA: both, Serial: 6}
	})
	whenHubChanges(t, "document-new-ca", func(w *world, k *keeper) identity.Document {
		ca := newCA(t)
		w.later(2*time.Minute, "hub", "has another CA", func() {
			w.signer = ca
			w.document = k.signed(w, 6, hubURL, ca)
			w.turnAway(401, nil)
		})
		return identity.Document{URL: hubURL, CA: ca, Serial: 6}
	})
	whenHubChanges(t, "document-new-address", func(w *world, k *keeper) identity.Document {
		w.document = k.signed(w, 6, otherURL, w.ca)
		return identity.Document{URL: otherURL, CA: w.ca, Serial: 6}
	})
	whenHubChanges(t, "document-address-that-does-not-work", func(w *world, k *keeper) identity.Document {
		w.strangers = true
		w.document = k.signed(w, 6, "https://nowhere.example", newCA(t))
		w.signer = w.ca
		return identity.Document{URL: hubURL, CA: w.ca, Serial: 5}
	})
	whenHubChanges(t, "document-new-signing-key", func(w *world, k *keeper) identity.Document {
		w.later(2*time.Minute, "hub", "rejects all tokens", func() {
			delete(w.accounts, "old")
			w.renewRecoveryToken()
			w.document = k.signed(w, 6, hubURL, w.ca)
			w.turnAway(401, nil)
		})
		return identity.Document{URL: hubURL, CA: w.ca, Serial: 6}
	})
	whenHubChanges(t, "document-new-ca-and-signing-key", func(w *world, k *keeper) identity.Document {
		ca := newCA(t)
		w.later(2*time.Minute, "hub", "is replaced", func() {
			delete(w.accounts, "old")
			w.renewRecoveryToken()
			w.signer = ca
			w.document = k.signed(w, 6, hubURL, ca)
			w.turnAway(401, nil)
		})
		return identity.Document{URL: hubURL, CA: ca, Serial: 6}
	})
	whenHubChanges(t, "document-new-ca-right-after-a-recovery", func(w *world, k *keeper) identity.Document {
		ca := newCA(t)
		w.later(2*time.Minute, "hub", "no longer knows the account", func() {
			delete(w.accounts, "old")
			w.turnAway(401, nil)
		})
		w.later(2*time.Minute+5*time.Second, "hub", "rejects another request of the old account", func() { w.turnAway(401, nil) })
		w.later(2*time.Minute+42*time.Second, "hub", "has another CA", func() {
			w.signer = ca
			w.document = k.signed(w, 6, hubURL, ca)
		})
		return identity.Document{URL: hubURL, CA: ca, Serial: 6}
	})
}

// A server that stands in for the hub, with another CA, gets neither the agent nor its tokens.
func TestForgedHubDocument_IsNotUsed(t *testing.T) {
	for name, test := range map[string]struct {
		document func(t *testing.T, w *world, k *keeper) string
		text     string // in the log
	}{
		"lower serial": {func(t *testing.T, w *world, k *keeper) string { return k.signed(w, 4, otherURL, newCA(t)) }, "older than the last one"},
		"signature of another hub": {func(t *testing.T, w *world, _ *keeper) string {
			foreign := &keeper{hub: newIdentityKey(t)}
			return foreign.signed(w, 6, otherURL, newCA(t))
		}, "not a document of this hub"},
		"no signature": {func(*testing.T, *world, *keeper) string { return `{"url":"https://other.example","serial":6}` }, "not a document of this hub"},
		"alg none": {func(*testing.T, *world, *keeper) string {
			return "eyJhbGciOiJub25lIiwidHlwIjoiZmxlZXQtaHViLWRvY3VtZW50K2p3cyJ9.eyJzZXJpYWwiOjZ9."
		}, "not a document of this hub"},
		"a ticket of the hub": {func(_ *testing.T, w *world, k *keeper) string { return k.given(w).Ticket }, "not a document of this hub"},
		"1 MiB":               {func(*testing.T, *world, *keeper) string { return strings.Repeat("a", 1<<20) }, "not a document of this hub"},
		"nothing":             {func(*testing.T, *world, *keeper) string { return "" }, "not a document of this hub"},
		"CA that does not verify the server": {func(t *testing.T, w *world, k *keeper) string {
			return k.signed(w, 6, hubURL, newCA(t)) // as one that has expired since
		}, "answers at the address of the hub document"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.keeper()
				k.keep(w, func(data map[string][]byte) { data["serial"] = []byte("5") })
				w.identitySecret("old")
				w.logs, w.signer = true, newCA(t)
				w.document = test.document(t, w, k)
				w.run(20 * time.Minute)
				want := k.kept(w)
				want.Serial = 5
				w.expectKept(want)
				story := strings.Join(w.lines, "\n")
				if w.storedToken() != "old" || !strings.Contains(story, test.text) || strings.Contains(story, w.recoveryToken) || strings.Contains(story, ": ok") {
					t.Errorf("the story, which should contain %q:\n%s", test.text, story)
				}
			})
		})
	}
}

// The recovery token was lost, and the hub document has it.
func TestLostRecoveryToken_IsInTheHubDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := w.keeper()
		k.keep(w, func(data map[string][]byte) { data["recoveryToken"] = data["recoveryToken"][:5] })
		w.document = k.signed(w, 6, hubURL, w.ca)
		w.run(10 * time.Minute)
		if w.times("serves fleet-default") != 1 {
			t.Errorf("the agent did not recover:\n%s", strings.Join(w.lines, "\n"))
		}
		want := k.kept(w)
		want.Serial = 6
		w.expectKept(want)
	})
}

// The hub was reinstalled: it has another key and does not know the agent. Its API server rejects the new token for a minute.
func TestBootstrapTokenRejectedForAMinute_IsTriedAgainAfterTheHubDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper().keep(w)
		w.accounts["old"] = true
		w.identitySecret("old")
		w.document = (&keeper{hub: newIdentityKey(t)}).signed(w, 1, hubURL, w.ca)
		w.later(time.Hour, "hub", "is reinstalled", func() { delete(w.accounts, "old"); clear(w.tokens); w.turnAway(401, nil) })
		w.later(2*time.Hour, "admin", "joins the cluster", func() { w.bootstrapSecret("import-2") })
		w.later(2*time.Hour+time.Minute, "hub", "accepts the new token", func() { w.tokens["import-2"] = true })
		w.run(2*time.Hour + 15*time.Minute)
		if w.times("POST clusterregistration as import-2: ok") != 1 || w.times("serves fleet-default") != 2 {
			t.Errorf("the agent did not register:\n%s", strings.Join(w.lines, "\n"))
		}
		w.expectMissing(names.AgentBootstrap)
	})
}

// The agent's objects cannot be read from hour 5 to 40, so that the work restarts at the new address only then. Its token is renewed
// twice meanwhile: when the agent reads the address, and 15 hours later.
func TestRenewalAfterAMoveByTheDocument_WorkRestartsAtTheNewAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := w.keeper()
		k.keep(w)
		first := tokenFor(0, 24*time.Hour)
		w.accounts[first] = true
		w.identitySecret(first, func(a *hubclient.Access) { a.Server = otherURL })
		w.local.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			now := time.Since(w.start)
			return now > 5*time.Hour && now < 40*time.Hour, nil, errors.New("unable to transform key")
		})
		w.later(6*time.Hour, "user", "changes an object", func() { w.configure(config.Agent{}) })
		w.later(7*time.Hour, "hub", "publishes its new address", func() {
			w.document = k.sign(w, identity.Document{URL: hubURL, CA: w.ca, Serial: 2, AddressSerial: 2, Lifetime: 24 * time.Hour})
		})
		w.run(42 * time.Hour)
		if w.renewal.accepted < 3 || w.hub.Host != hubURL || w.times("serves fleet-default") != 2 {
			t.Errorf("renewed %d times; serves at %s, want %s:\n%s", w.renewal.accepted, w.hub.Host, hubURL, strings.Join(w.lines, "\n"))
		}
	})
}

// Only a verified connection delivers a new key of the hub. Its documents begin with their own serials.
func TestNewHubKey_IsAcceptedFromTheCredentialOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := w.keeper()
		k.keep(w, func(data map[string][]byte) { data["serial"] = []byte("500") })
		w.accounts["old"] = true
		w.identitySecret("old")
		k.hub = newIdentityKey(t)
		w.document = k.signed(w, 6, hubURL, w.ca)
		w.run(10 * time.Minute)
		want := k.kept(w)
		want.Serial = 6
		w.expectKept(want)
		if got := protocol.ParseRecoveryData(w.storedData()).HubKey; got != k.hub.Public() {
			t.Errorf("hub key %s", got)
		}
	})
}

// A hub with many clusters rejects the agent, which stored the spread with a document before. Without it, it would send its
// request five minutes earlier.
func TestRecoverySpreadOfTheHub_IsStoredAndUsed(t *testing.T) {
	for name, test := range map[string]struct {
		published time.Duration
		after     time.Duration // the request, after the rejection
	}{
		"ten minutes": {10 * time.Minute, registering.RejectionPatience + 5*time.Minute},
		"nothing":     {0, registering.RejectionPatience + registering.RecoverySpread/2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.keeper()
				k.keep(w)
				w.accounts["old"] = true
				w.identitySecret("old")
				w.document = k.sign(w, identity.Document{URL: hubURL, CA: w.ca, Serial: 6, RecoverySpread: test.published})
				var rejected time.Time
				w.later(time.Hour, "hub", "no longer knows the account", func() {
					rejected = time.Now()
					delete(w.accounts, "old")
					w.turnAway(401, nil)
				})
				w.run(2 * time.Hour)
				want := k.kept(w)
				want.Serial, want.RecoverySpread = 6, test.published
				w.expectKept(want) // also after the recovery
				if w.times("POST clusterregistration as fleet-recovery: ok") != 1 {
					t.Fatalf("the story:\n%s", strings.Join(w.lines, "\n"))
				}
				if late := w.when("POST clusterregistration as fleet-recovery: ok").Sub(rejected.Add(test.after)).Abs(); late > 10*time.Second {
					t.Errorf("the request is %s away from its turn", late)
				}
			})
		})
	}
}

// when returns the time of the first line of the story with this text.
func (w *world) when(text string) time.Time {
	w.t.Helper()
	for _, line := range w.lines {
		if at, what, _ := strings.Cut(line, "s  "); strings.Contains(what, text) {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
			if err != nil {
				w.t.Fatal(err)
			}
			return w.start.Add(time.Duration(seconds * float64(time.Second)))
		}
	}
	w.t.Fatalf("no line with %q", text)
	return time.Time{}
}
