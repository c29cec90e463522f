package register

import (
	"cmp"
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
)

// at makes a bootstrap secret name the hub by this address.
func at(server string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[protocol.APIServerURLKey] = []byte(server) }
}

// signedBy makes it name another CA.
func signedBy(ca []byte) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[protocol.APIServerCAKey] = ca }
}

const movedURL = "https://moved.example:6443"

// testdata/FILE.golden has the story of each row: the address or the CA of the hub changes.
func TestMovedHubStories_MatchTheGoldens(t *testing.T) {
	tests := map[string]struct {
		file  string
		story func(t *testing.T, w *world)
	}{
		"working identity, another address": {"moves-address", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "admin", "upgrades the chart with another address", func() { w.bootstrapSecret("import-1", at(movedURL)) })
			w.later(2*time.Minute, "hub", "goes down where it was", func() { w.down = true; w.turnAway(0, errGone) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"another address that answers later": {"moves-later", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.Server = movedURL })
			w.down = true // what answers first is at movedURL here
			w.later(time.Minute, "admin", "upgrades the chart ahead of the move", func() { w.bootstrapSecret("import-1") })
			w.later(4*time.Minute, "hub", "answers there, too", func() { w.down = false })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"another address whose server rejects the identity": {"moves-nowhere", func(_ *testing.T, w *world) {
			w.logs, w.strangers = true, true
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "admin", "upgrades the chart with the address of another hub", func() { w.bootstrapSecret("import-1", at(movedURL)) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"new CA before the new certificate: not stored yet": {"moves-ca-ahead", func(t *testing.T, w *world) {
			next := newCA(t)
			w.signer = w.ca
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "admin", "upgrades the chart with the CA to come", func() { w.bootstrapSecret("import-1", signedBy(next)) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"both CAs before the new certificate: stored": {"moves-ca-both", func(t *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			both := append(append([]byte{}, w.ca...), newCA(t)...)
			w.later(time.Minute, "admin", "upgrades the chart with both CAs", func() { w.bootstrapSecret("import-1", signedBy(both)) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"new certificate before its CA": {"moves-ca", func(t *testing.T, w *world) {
			next := newCA(t)
			w.signer = w.ca
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "shows a certificate of another CA", func() { w.signer = next; w.turnAway(0, errUntrusted) })
			w.later(119*time.Second, "admin", "upgrades the chart with that CA", func() { w.bootstrapSecret("import-1", signedBy(next)) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"new certificate at the start, then its CA": {"moves-ca-at-start", func(t *testing.T, w *world) {
			w.signer = newCA(t)
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.bootstrapSecret("import-1", signedBy(w.signer))
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"the hub rewrites the stored kubeconfig": {"rewritten", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "writes its new address into Secret fleet-agent", func() {
				w.identitySecret("account-0", func(a *hubclient.Access) { a.Server = movedURL })
			})
			w.run(time.Hour)
		}},
		"mode becomes strict, identity without a CA, hub writes one": {"becomes-strict", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.CA = nil })
			w.configure(config.Agent{AgentTLSMode: config.TLSModeSystemStore})
			w.later(time.Minute, "hub", "makes the mode strict", func() { w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict}) })
			w.later(119*time.Second, "hub", "writes its CA into Secret fleet-agent", func() { w.identitySecret("account-0", func(a *hubclient.Access) { a.Server += "/" }) })
			w.run(time.Hour)
		}},
		"mode becomes strict, bootstrap secret has the CA": {"becomes-strict-with-bootstrap", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.CA = nil })
			w.configure(config.Agent{AgentTLSMode: config.TLSModeSystemStore})
			w.later(time.Minute, "hub", "makes the mode strict", func() { w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict}) })
			w.later(62*time.Second, "admin", "delivers the CA", func() { w.bootstrapSecret("import-1") })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"mode becomes strict just after the CA was delivered": {"becomes-strict-after-bootstrap", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.CA = nil })
			w.configure(config.Agent{AgentTLSMode: config.TLSModeSystemStore})
			w.later(time.Minute, "admin", "upgrades the chart, of which the Secret comes first", func() { w.bootstrapSecret("import-1") })
			w.later(61*time.Second, "admin", "and mode strict in the ConfigMap second", func() { w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict}) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"mode becomes system-store just after an address without a CA": {"becomes-system-store-after-bootstrap", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict})
			w.later(time.Minute, "admin", "upgrades the chart, of which the Secret comes first", func() { w.bootstrapSecret("import-1", at(movedURL), signedBy(nil)) })
			w.later(61*time.Second, "admin", "and mode system-store in the ConfigMap second", func() { w.configure(config.Agent{AgentTLSMode: config.TLSModeSystemStore}) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"address without a CA under mode strict": {"stays-strict-with-bootstrap", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict})
			w.later(time.Minute, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-1", at(movedURL), signedBy(nil)) })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"unneeded CA under mode system-store": {"stays-system-store", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.CA = nil })
			w.configure(config.Agent{AgentTLSMode: config.TLSModeSystemStore})
			w.later(time.Minute, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-1") })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"identity is rejected while its new address does not answer": {"moves-later-rejected", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.Server = movedURL })
			w.down = true // what answers first is at movedURL here
			w.later(time.Minute, "admin", "upgrades the chart ahead of the move", func() { w.bootstrapSecret("import-1") })
			w.later(100*time.Second, "hub", "turns the agent away where it was", func() { w.strangers = true; w.turnAway(401, nil) })
			w.later(4*time.Minute, "hub", "answers there", func() { w.down = false })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"identity is rejected for a while, new address never answers": {"moves-nowhere-rejected", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.Server = movedURL })
			w.down = true // what answers is at movedURL here
			w.later(time.Minute, "admin", "upgrades the chart ahead of the move", func() { w.bootstrapSecret("import-1") })
			away := func(from, until time.Duration) {
				w.later(from, "hub", "turns the agent away", func() { w.strangers = true; w.turnAway(401, nil) })
				w.later(until, "hub", "knows it again", func() { w.strangers = false })
			}
			away(100*time.Second, 104*time.Second)
			away(200*time.Second, 255*time.Second)
			w.run(10 * time.Minute)
		}},
		"rights are missing for a moment, bootstrap secret has another token": {"forbidden-for-a-moment-with-bootstrap", func(_ *testing.T, w *world) {
			w.accounts["account-0"], w.tokens["import-2"] = true, true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "restarts, and does not know of anybody's rights yet", func() { w.doomed["account-0"] = true })
			w.later(61*time.Second, "admin", "upgrades the chart with another token", func() { w.bootstrapSecret("import-2") })
			w.later(65*time.Second, "hub", "knows them", func() { delete(w.doomed, "account-0") })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"rights are deleted, bootstrap secret has another token": {"forbidden-with-bootstrap", func(_ *testing.T, w *world) {
			w.accounts["account-0"], w.tokens["import-2"] = true, true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "takes the agent's rights away", func() { w.doomed["account-0"] = true })
			w.later(61*time.Second, "admin", "upgrades the chart with another token", func() { w.bootstrapSecret("import-2") })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"mode becomes strict, identity has the CA": {"stays-strict", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.configure(config.Agent{AgentTLSMode: config.TLSModeSystemStore})
			w.later(time.Minute, "hub", "makes the mode strict", func() { w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict}) })
			w.run(time.Hour)
		}},
		"start under mode strict, identity without a CA": {"strict-at-start", func(_ *testing.T, w *world) {
			w.logs = true
			w.accounts["account-0"] = true
			w.identitySecret("account-0", func(a *hubclient.Access) { a.CA = nil })
			w.configure(config.Agent{AgentTLSMode: config.TLSModeStrict})
			w.run(time.Hour)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { inWorld(t, test.file, test.story) })
	}
}

// A bootstrap secret names another address, or another CA for the same one. The server there gets the stored identity only if
// it is the agent's own hub.
func TestBootstrapSecretOfAnotherHub_DoesNotSendTheIdentityThere(t *testing.T) {
	named := func(serial int64, url string) func(*world, *keeper, []byte) string {
		return func(w *world, k *keeper, ca []byte) string { return k.signed(w, serial, url, ca) }
	}
	foreign := func(url string) func(*world, *keeper, []byte) string {
		return func(w *world, _ *keeper, ca []byte) string {
			return (&keeper{hub: newIdentityKey(w.t)}).signed(w, 6, url, ca)
		}
	}
	none := func(*world, *keeper, []byte) string { return "" }
	tests := map[string]struct {
		url      string
		document func(*world, *keeper, []byte) string
		ownCA    bool // the server has a certificate of the CA that the agent trusts
		expired  bool // the token of the bootstrap secret
		want     bool
		serial   int64 // of the document that the agent has in the end, 5 if it is 0
	}{
		"own hub: its document names the address":             {url: movedURL, document: named(6, movedURL), want: true, serial: 6},
		"own hub: the import token has expired":               {url: movedURL, document: named(6, movedURL), expired: true, want: true, serial: 6},
		"own hub: an address that the document does not name": {url: movedURL, document: named(6, hubURL), ownCA: true, want: true},
		"own hub: a new CA":                                   {url: hubURL, document: named(6, hubURL), want: true, serial: 6},
		"another hub":                                         {url: movedURL, document: foreign(movedURL)},
		"another hub with a certificate of the same CA":       {url: movedURL, document: foreign(movedURL), ownCA: true},
		"another hub shows a copy of the document":            {url: movedURL, document: named(6, hubURL)},
		"another hub at the same address":                     {url: hubURL, document: foreign(hubURL)},
		"another hub without a document":                      {url: movedURL, document: none, ownCA: true},
		"another hub without a document, an expired token":    {url: movedURL, document: none, ownCA: true, expired: true},
		"an old document":                                     {url: movedURL, document: named(4, movedURL)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.keeper()
				k.keep(w, func(data map[string][]byte) { data["serial"] = []byte("5") })
				w.accounts["own"], w.tokens["import-1"] = true, !test.expired
				w.identitySecret("own")
				ca := w.ca
				if !test.ownCA {
					ca = newCA(t)
				}
				if test.url == hubURL {
					w.signer = ca
				}
				w.anonymous = map[string]string{test.url: test.document(w, k, ca)}
				w.bootstrapSecret("import-1", at(test.url), signedBy(ca))
				w.run(time.Minute)
				if sent := w.times("as own at "+test.url+": ok") > 0; sent != test.want {
					t.Errorf("the identity was sent: %v\n%s", sent, strings.Join(w.lines, "\n"))
				}
				if serial := protocol.ParseRecoveryData(w.storedData()).Serial; serial != cmp.Or(test.serial, 5) {
					t.Errorf("the agent has the document with serial %d", serial)
				}
				if (test.want || test.url == movedURL) && w.storedToken() != "own" {
					t.Error("the agent registered again")
				}
				w.expectMissing(names.AgentBootstrap)
			})
		})
	}
}

// The old address is off. The new one does not accept the agent before minute six, as with a restore that is not complete.
func TestNewAddressThatRejectsTheAgentAtFirst_IsUsedWhenItAcceptsIt(t *testing.T) {
	for name, rejects := range map[string]func(w *world) *bool{
		"401":        func(w *world) *bool { return &w.strangers },
		"another CA": func(w *world) *bool { return &w.untrusted },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.keeper()
				k.keep(w, func(data map[string][]byte) { data["serial"] = []byte("5") })
				w.anonymous = map[string]string{movedURL: k.signed(w, 6, movedURL, w.ca)}
				w.accounts["account-0"] = true
				w.identitySecret("account-0")
				w.later(time.Minute, "hub", "moves", func() { w.down, *rejects(w) = true, true; w.bootstrapSecret("import-1", at(movedURL)) })
				w.later(6*time.Minute, "hub", "accepts the agent at the new address", func() { *rejects(w) = false })
				w.run(time.Hour)
				if w.times("as account-0 at "+movedURL+": ok") == 0 || w.times("serves fleet-default") != 2 || w.storedToken() != "account-0" {
					t.Errorf("the agent does not serve at the new address:\n%s", strings.Join(w.lines, "\n"))
				}
				w.expectMissing(names.AgentBootstrap)
			})
		})
	}
}

// The hub has no document, as those of Rancher Fleet. The tokens show whether it is probably the same.
func TestBootstrapSecretWithATokenOfAnotherKey_DoesNotSendTheIdentityThere(t *testing.T) {
	token := func(key, issuer string) string {
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"kid":"`+key+`"}`)) + "." + part([]byte(`{"iss":"`+issuer+`"}`)) + ".s"
	}
	own := token("key-1", "kubernetes/serviceaccount")
	for name, test := range map[string]struct {
		imported string
		want     bool
	}{
		"the same key":                     {token("key-1", "https://kubernetes.default.svc"), true},
		"another key":                      {token("key-2", "kubernetes/serviceaccount"), false},
		"a token that does not name a key": {"import-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.accounts[own] = true
				w.identitySecret(own)
				w.bootstrapSecret(test.imported, at(movedURL))
				w.run(time.Minute)
				if sent := w.times("as "+own+" at "+movedURL) > 0; sent != test.want {
					t.Errorf("the identity was sent: %v\n%s", sent, strings.Join(w.lines, "\n"))
				}
				if w.storedToken() != own {
					t.Error("the agent registered again")
				}
				w.expectMissing(names.AgentBootstrap)
			})
		})
	}
}
