package register

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// testdata/FILE.golden has the story of each row: what the agent, the hub and the admin do, in order.
func TestStories_MatchTheGoldens(t *testing.T) {
	tests := map[string]struct {
		file  string
		story func(t *testing.T, w *world)
	}{
		"a first registration": {"first-registration", func(_ *testing.T, w *world) {
			w.configure(config.Agent{ClientID: "c1", Labels: map[string]string{"env": "dev"}})
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
		"restart with a working identity: no registration": {"restart", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.run(time.Hour)
		}},
		"restart after a registration: no registration": {"register-and-restart", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
			w.run(time.Minute)
		}},
		"bootstrap secret beside a working identity: deleted unused": {"bootstrap-not-needed", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.bootstrapSecret("import-1")
			w.later(time.Minute, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-2") })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"hub is down at the start: the agent waits": {"hub-down-at-start", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.down = true
			w.later(119*time.Second, "hub", "is back", func() { w.down = false })
			w.run(time.Hour)
		}},
		"hub is down during the registration: the agent waits": {"hub-down-at-registration", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-1")
			w.down = true
			w.later(119*time.Second, "hub", "is back", func() { w.down = false })
			w.run(10 * time.Minute)
		}},
		"hub goes down after the request: the agent waits": {"hub-down-after-request", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-1")
			w.later(210*time.Millisecond, "hub", "goes down", func() { w.down = true })
			w.later(119*time.Second, "hub", "is back", func() { w.down = false })
			w.run(10 * time.Minute)
		}},
		"hub goes down while the agent runs: the agent continues": {"hub-down-while-running", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "goes down", func() { w.down = true; w.turnAway(0, errors.New("connection refused")) })
			w.later(3*time.Minute, "hub", "is back", func() { w.down = false })
			w.run(time.Hour)
		}},
		"identity is rejected at the start, no bootstrap secret": {"rejected-at-start", func(_ *testing.T, w *world) {
			w.identitySecret("account-0")
			w.run(time.Hour)
		}},
		"identity is rejected at the start, bootstrap secret exists": {"rejected-at-start-with-bootstrap", func(_ *testing.T, w *world) {
			w.identitySecret("account-0")
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
		"API server rejects just after its start": {"rejected-for-a-moment", func(_ *testing.T, w *world) {
			w.identitySecret("account-0")
			w.later(4*time.Second, "hub", "knows its accounts again", func() { w.accounts["account-0"] = true })
			w.run(time.Minute)
		}},
		"start without identity and bootstrap secret": {"nothing-at-start", func(_ *testing.T, w *world) {
			w.run(time.Hour)
		}},
		"deleted credential and a new bootstrap secret": {"lost-credential", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.tokens["import-2"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "deletes Secret fleet-agent", func() { w.remove(names.Agent) })
			w.later(119*time.Second, "hub", "delivers a bootstrap secret", func() { w.bootstrapSecret("import-2") })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"identity in use is rejected, then accepted": {"rejected-while-running", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "loses the account", func() { delete(w.accounts, "account-0"); w.turnAway(http.StatusUnauthorized, nil) })
			w.later(119*time.Second, "hub", "has it back", func() { w.accounts["account-0"] = true })
			w.run(time.Hour)
		}},
		"identity in use is rejected, then replaced": {"rejected-while-running-with-bootstrap", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "loses the account", func() { delete(w.accounts, "account-0"); w.turnAway(http.StatusForbidden, nil) })
			w.later(119*time.Second, "hub", "delivers a bootstrap secret", func() { w.bootstrapSecret("import-1") })
			w.run(time.Hour)
		}},
		"configuration with another client ID arrives after the bootstrap secret: the agent waits": {"client-id-after-bootstrap", func(_ *testing.T, w *world) {
			w.configure(config.Agent{ClientID: "of-a-deleted-cluster"})
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "loses the account", func() { delete(w.accounts, "account-0"); w.turnAway(http.StatusForbidden, nil) })
			w.later(119*time.Second, "admin", "upgrades the chart: bootstrap secret", func() { w.bootstrapSecret("import-1", ofClient("c2")) })
			w.later(120*time.Second, "admin", "upgrades the chart: configuration", func() { w.configure(config.Agent{ClientID: "c2"}) })
			w.run(time.Hour)
			w.expectClientIDs("c2")
		}},
		"configuration with another client ID does not arrive: the wait ends": {"client-id-without-configuration", func(_ *testing.T, w *world) {
			w.configure(config.Agent{ClientID: "c1"})
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "loses the account", func() { delete(w.accounts, "account-0"); w.turnAway(http.StatusForbidden, nil) })
			w.later(119*time.Second, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-1", ofClient("c2")) })
			w.run(time.Hour)
			w.expectClientIDs("c1")
		}},
		"hub shows another certificate to a running agent": {"untrusted-while-running", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "shows another certificate", func() { w.untrusted = true; w.turnAway(0, x509.UnknownAuthorityError{}) })
			w.later(119*time.Second, "hub", "shows its own again", func() { w.untrusted = false })
			w.run(time.Hour)
		}},
		"requests with other rights are denied: the agent continues": {"forbidden-elsewhere", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			for _, at := range []time.Duration{60, 61, 63, 90} {
				w.later(at*time.Second, "hub", "forbids the agent a Secret", func() { w.turnAway(http.StatusForbidden, nil) })
			}
			w.run(time.Hour)
		}},
		"slow grant": {"late-grant", func(_ *testing.T, w *world) {
			w.grant = grantPlan{rights: 40 * time.Second, account: 45 * time.Second, credential: 50 * time.Second}
			w.bootstrapSecret("import-1")
			w.run(10 * time.Minute)
		}},
		"request is never granted": {"no-grant", func(_ *testing.T, w *world) {
			w.grant = grantPlan{rights: 24 * time.Hour}
			w.bootstrapSecret("import-1")
			w.run(61 * time.Minute)
		}},
		"account works only after the credential exists": {"late-rights", func(_ *testing.T, w *world) {
			w.grant.account = 3 * time.Second
			w.doomed["account-1"] = true
			w.later(3100*time.Millisecond, "hub", "binds the account's role", func() { delete(w.doomed, "account-1") })
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"account never works: another request": {"broken-grant", func(_ *testing.T, w *world) {
			w.doomed["account-1"] = true
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"a bootstrap secret with the key values": {"values-key", func(t *testing.T, w *world) {
			w.bootstrapSecret("import-1", func(s *corev1.Secret) {
				values, err := protocol.Values{
					ClusterNamespace: "fleet-default", APIServerURL: hubURL, APIServerCA: string(w.ca), Token: "import-1",
					SystemRegistrationNamespace: "cattle-fleet-clusters-system", TokenName: "t1",
				}.Encode()
				if err != nil {
					t.Fatal(err)
				}
				s.Data = map[string][]byte{protocol.ValuesKey: values}
			})
			w.run(time.Minute)
		}},
		"a bootstrap secret that lacks a key": {"incomplete-bootstrap", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-1", func(s *corev1.Secret) { delete(s.Data, "token") })
			w.run(time.Minute)
		}},
		"bootstrap secret with an invalid address": {"bootstrap-without-address", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-1", func(s *corev1.Secret) { s.Data[protocol.APIServerURLKey] = []byte("hub") })
			w.run(time.Minute)
		}},
		"strict mode without a CA": {"strict-without-ca", func(_ *testing.T, w *world) {
			w.configure(config.Agent{AgentTLSMode: "strict"})
			w.bootstrapSecret("import-1", func(s *corev1.Secret) { delete(s.Data, protocol.APIServerCAKey) })
			w.run(time.Minute)
		}},
		"unknown TLS mode": {"unknown-tls-mode", func(_ *testing.T, w *world) {
			w.configure(config.Agent{AgentTLSMode: "lenient"})
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"configuration is not YAML": {"malformed-configuration", func(_ *testing.T, w *world) {
			w.configureText("{")
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"setting changes while the identity is in use": {"setting-changes", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			every := func(d time.Duration) {
				w.configure(config.Agent{AgentTLSMode: "strict", GarbageCollectionInterval: metav1.Duration{Duration: d}})
			}
			every(15 * time.Minute)
			w.later(time.Minute, "admin", "upgrades the chart with another interval", func() { every(time.Hour) })
			w.later(2*time.Minute, "admin", "upgrades the chart with other labels", func() {
				w.configure(config.Agent{Labels: map[string]string{"a": "b"}, AgentTLSMode: "strict", GarbageCollectionInterval: metav1.Duration{Duration: time.Hour}})
			})
			w.later(3*time.Minute, "admin", "breaks the configuration", func() { w.configureText("{") })
			w.later(4*time.Minute, "admin", "mends it with the interval of before", func() { every(15 * time.Minute) })
			w.run(5 * time.Minute)
		}},
		"a hub whose certificate is not trusted": {"untrusted", func(_ *testing.T, w *world) {
			w.untrusted = true
			w.bootstrapSecret("import-1")
			w.run(time.Hour)
		}},
		"unknown token": {"token-rejected", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-9")
			w.run(time.Hour)
		}},
		"token is deleted while its request is pending": {"token-ends", func(_ *testing.T, w *world) {
			w.grant = grantPlan{rights: time.Hour}
			w.later(time.Minute, "hub", "deletes the token", func() { delete(w.tokens, "import-1") })
			w.bootstrapSecret("import-1")
			w.run(time.Hour)
		}},
		"bootstrap secret is replaced while its request is pending": {"bootstrap-replaced", func(_ *testing.T, w *world) {
			w.grant.rights, w.grant.credential = time.Hour, 0
			w.tokens["import-2"] = true
			w.bootstrapSecret("import-1")
			w.later(time.Minute, "admin", "upgrades the chart with another token", func() {
				w.grant = grantPlan{rights: 150 * time.Millisecond, account: 220 * time.Millisecond, credential: 250 * time.Millisecond}
				w.bootstrapSecret("import-2")
			})
			w.run(2 * time.Minute)
		}},
		"bootstrap secret is deleted while its request is pending, then another is created": {"bootstrap-deleted", func(_ *testing.T, w *world) {
			w.grant.rights, w.grant.credential = time.Hour, 0
			w.tokens["import-2"] = true
			w.bootstrapSecret("import-1")
			w.later(time.Minute, "hub", "deletes the bootstrap secret", func() { w.remove(names.AgentBootstrap) })
			w.later(2*time.Minute, "hub", "delivers another", func() {
				w.grant = grantPlan{rights: 150 * time.Millisecond, account: 220 * time.Millisecond, credential: 250 * time.Millisecond}
				w.bootstrapSecret("import-2")
			})
			w.run(3 * time.Minute)
		}},
		"hub goes down between credential and proof: the agent waits": {"hub-down-before-proof", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-1")
			w.doomed["account-1"] = true
			w.later(300*time.Millisecond, "hub", "goes down", func() { w.down = true; delete(w.doomed, "account-1") })
			w.later(119*time.Second, "hub", "is back", func() { w.down = false })
			w.run(10 * time.Minute)
		}},
		"hub moved while it was down": {"hub-moved", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.down = true
			w.later(50*time.Second, "hub", "answers elsewhere", func() { w.bootstrapSecret("import-1", at("https://elsewhere.example")) })
			w.run(5 * time.Minute)
		}},
		"hub is down, and another one does not know the token": {"hub-not-moved", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.bootstrapSecret("import-9", at("https://elsewhere.example"))
			w.down, w.strangers = true, true
			w.later(110*time.Second, "hub", "is back", func() { w.down = false })
			w.run(5 * time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
		"credential is incomplete at first": {"hollow-credential", func(_ *testing.T, w *world) {
			w.hollow = true
			w.later(2020*time.Millisecond, "hub", "completes the credential", func() { w.hollow = false })
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"credential can be read but not watched": {"no-watch", func(_ *testing.T, w *world) {
			w.grant.credential = 450 * time.Millisecond
			w.onWatch = func() error { return apierrors.NewForbidden(corev1.Resource("secrets"), "", nil) }
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"watch breaks off": {"watch-breaks", func(_ *testing.T, w *world) {
			w.grant.credential = 20 * time.Second
			w.later(10020*time.Millisecond, "hub", "closes the watch", func() { w.watched.Stop() })
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"watch receives an error event": {"watch-fails", func(_ *testing.T, w *world) {
			w.grant.credential = 20 * time.Second
			w.later(10020*time.Millisecond, "hub", "ends the watch with 410", func() { w.watched.Error(&apierrors.NewResourceExpired("too old").ErrStatus) })
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"unanswered watch is started again": {"watch-is-silent", func(_ *testing.T, w *world) {
			w.grant.credential = 40 * time.Second
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"bootstrap secret is replaced while the credential is watched": {"bootstrap-replaced-while-watching", func(_ *testing.T, w *world) {
			w.grant.credential = time.Hour
			w.tokens["import-2"] = true
			w.bootstrapSecret("import-1")
			w.later(10020*time.Millisecond, "admin", "upgrades the chart with another token", func() {
				w.grant.credential = 250 * time.Millisecond
				w.bootstrapSecret("import-2")
			})
			w.run(time.Minute)
		}},
		"identity cannot be parsed, bootstrap secret exists": {"unreadable-identity", func(_ *testing.T, w *world) {
			w.add(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: names.Agent},
				Data:       protocol.Identity{Kubeconfig: []byte("{"), DeploymentNamespace: "d", ClusterNamespace: "c", ClusterName: "n"}.Encode(),
			})
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"identity lacks a key, no bootstrap secret": {"incomplete-identity", func(_ *testing.T, w *world) {
			w.add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: names.Agent}, Data: map[string][]byte{"kubeconfig": []byte("x")}})
			w.run(time.Minute)
		}},
		"identity is replaced while it is in use": {"identity-replaced", func(_ *testing.T, w *world) {
			w.accounts["account-0"], w.accounts["account-7"] = true, true
			w.identitySecret("account-0")
			w.later(time.Minute, "admin", "restores a backup", func() { w.identitySecret("account-7") })
			w.run(time.Hour)
		}},
		"client ID of this cluster cannot be read at first": {"no-client-id", func(_ *testing.T, w *world) {
			failures := 2
			w.local.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				failures--
				return failures >= 0, nil, errors.New("etcdserver: request timed out")
			})
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"agent is stopped while it waits: nothing remains": {"leaves-while-waiting", func(_ *testing.T, w *world) {
			w.bootstrapSecret("import-1")
			w.run(180 * time.Millisecond)
			w.expectMissing(names.Agent)
		}},
		"work ends without an error: the agent exits": {"work-ends", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.endsAtOnce = true
			w.identitySecret("account-0")
			w.run(time.Minute)
		}},
		"work ends with an error: the agent exits": {"work-fails", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.ending = errors.New("no caches")
			w.identitySecret("account-0")
			w.run(time.Minute)
		}},
		"own cluster is unreachable for a while": {"local-cluster-down", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			var back atomic.Bool
			w.local.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return !back.Load(), nil, errors.New("connection refused")
			})
			w.later(10*time.Second, "local", "is back", func() { back.Store(true) })
			w.run(time.Minute)
		}},
		"identity cannot be stored at first": {"store-fails", func(_ *testing.T, w *world) {
			w.failFor(2, "create")
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"configuration changes while an identity cannot be stored": {"store-interrupted", func(_ *testing.T, w *world) {
			w.logs = true
			w.failFor(2, "create")
			w.bootstrapSecret("import-1")
			w.later(time.Second, "admin", "labels the cluster", func() { w.configure(config.Agent{Labels: map[string]string{"a": "b"}}) })
			w.run(time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
		"configuration changes while an identity cannot be stored, the former one is unknown to the hub": {"store-interrupted-beside-identity", func(_ *testing.T, w *world) {
			w.logs = true
			w.failFor(2, "update")
			w.identitySecret("account-0")
			w.bootstrapSecret("import-1")
			w.later(time.Second, "admin", "labels the cluster", func() { w.configure(config.Agent{Labels: map[string]string{"a": "b"}}) })
			w.run(time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
		"bootstrap secret cannot be deleted at first": {"drop-fails", func(_ *testing.T, w *world) {
			w.failFor(2, "delete")
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { inWorld(t, test.file, test.story) })
	}
}

// The hub is down from the grant to minute 20. Each test of the credential reads the agent's objects first.
func TestNewCredentialWhileTheHubIsSilent_IsTestedEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.grant.account = 2 * time.Second
		w.bootstrapSecret("import-1")
		w.later(time.Second, "hub", "is down", func() { w.down = true })
		w.later(20*time.Minute, "hub", "is back", func() { w.down = false })
		w.run(25 * time.Minute)
		reads := 0
		for _, action := range w.local.Actions() {
			if action.Matches("get", "configmaps") {
				reads++
			}
		}
		if reads > 120 || w.when("serves fleet-default").Sub(w.start) > 20*time.Minute+30*time.Second {
			t.Errorf("%d reads of the configuration, want at most 120:\n%s", reads, strings.Join(w.lines, "\n"))
		}
	})
}

// The labels of the request come from the ConfigMap, which may be missing or have none.
func TestMissingConfigMap_RequestIsSent(t *testing.T) {
	inWorld(t, "refused-without-configuration", func(t *testing.T, w *world) {
		w.refuse = apierrors.NewGenericServerResponse(404, "post", fleet.Resource("clusterregistrations"), "", "", 0, false)
		w.bootstrapSecret("import-1")
		w.run(30 * time.Second)
	})
}

func TestRequest_ContainsClientIDAndLabels(t *testing.T) {
	inWorld(t, "request-contents", func(t *testing.T, w *world) {
		w.bootstrapSecret("import-1")
		w.run(time.Second)
		w.remove(names.Agent)
		w.configure(config.Agent{ClientID: "c1", Labels: map[string]string{"env": "dev"}})
		w.bootstrapSecret("import-1")
		w.run(time.Second)
		random := w.requests[0].Spec.ClientRandom
		want := []fleet.ClusterRegistrationSpec{
			{ClientID: "system-uid", ClientRandom: random, ClusterLabels: map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-pod"}},
			{ClientID: "c1", ClientRandom: random, ClusterLabels: map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-pod", "env": "dev"}},
		}
		var got []fleet.ClusterRegistrationSpec
		for _, request := range w.requests {
			got = append(got, request.Spec)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}
