package register

import (
	"bytes"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// keeper is a hub with its key, and the agent that it has given what a recovery needs.
type keeper struct {
	hub, agent    identity.Key
	ticket        identity.Ticket
	signedTickets map[string]string // by the hub's key
}

// keeper makes the hub give what agents need for a recovery.
func (w *world) keeper() *keeper {
	w.t.Helper()
	k := &keeper{hub: newIdentityKey(w.t), signedTickets: map[string]string{}}
	secret, err := w.local.CoreV1().Secrets("kube-system").Get(w.t.Context(), recoveryName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if k.agent, err = identity.ParseKey(secret.Data[protocol.RecoveryKeyKey]); err != nil {
		w.t.Fatal(err)
	}
	k.ticket = identity.Ticket{
		Workspace: "fleet-default", Cluster: "a", ClientID: "client-a", Key: identity.Thumbprint(k.agent.Public()), Labels: map[string]string{"env": "prod"}, Time: time.Now(),
	}
	w.recoveryToken = rulestest.BoundJWT("recovery-account", time.Time{})
	w.tokens[w.recoveryToken] = true
	w.gives = func() map[string][]byte { return k.given(w).Encode() }
	return k
}

func (k *keeper) given(w *world) protocol.Recovery {
	if k.signedTickets[k.hub.Public()] == "" {
		ticket, err := k.hub.SignTicket(k.ticket)
		if err != nil {
			w.t.Error(err)
		}
		k.signedTickets[k.hub.Public()] = ticket
	}
	return protocol.Recovery{Token: w.recoveryToken, Ticket: k.signedTickets[k.hub.Public()], HubKey: k.hub.Public(), WorkspaceKey: k.hub.WorkspaceKey("fleet-default")}
}

// kept is the data of the recovery Secret of an agent that has registered.
func (k *keeper) kept(w *world) protocol.RecoveryData {
	return protocol.RecoveryData{
		Recovery: k.given(w), APIServerURL: hubURL, APIServerCA: w.ca, ClusterNamespace: "fleet-default",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system", ClientID: "client-a",
	}
}

// keep stores it as an earlier process did.
func (k *keeper) keep(w *world, change ...func(map[string][]byte)) {
	w.t.Helper()
	document, err := k.agent.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	data := map[string][]byte{protocol.RecoveryKeyKey: document}
	maps.Copy(data, k.kept(w).Encode())
	for _, change := range change {
		change(data)
	}
	secret := recoverySecret("kube-system", protocol.SecretTypeRecovery, nil)
	secret.Data = data
	if err := w.local.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), secret, "kube-system"); err != nil {
		w.t.Fatal(err)
	}
}

// removeRecovery deletes the recovery Secret.
func (w *world) removeRecovery() {
	if err := w.local.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "kube-system", recoveryName); err != nil {
		w.t.Error(err)
	}
}

func newIdentityKey(t *testing.T) identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// storedData is the data of the recovery Secret.
func (w *world) storedData() map[string][]byte {
	w.t.Helper()
	secret, err := w.local.CoreV1().Secrets("kube-system").Get(w.t.Context(), recoveryName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret.Data
}

func (w *world) expectKept(want protocol.RecoveryData) {
	w.t.Helper()
	got := protocol.ParseRecoveryData(w.storedData())
	if !cmp.Equal(want, got) {
		w.t.Errorf("recovery Secret (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// expectSigned fails unless the request was made with the recovery token, the agent's key and the ticket.
func (k *keeper) expectSigned(t *testing.T, request *fleet.ClusterRegistration) {
	t.Helper()
	claims := identity.Claims{ClientID: "client-a", ClientRandom: request.Spec.ClientRandom, Account: "recovery-account", Hub: identity.Thumbprint(k.hub.Public())}
	if err := identity.Verify(k.agent.Public(), request.Annotations[annotation.AgentProof], claims); err != nil {
		t.Error(err)
	}
	if ticket, err := identity.VerifyTicket(k.hub.Public(), request.Annotations[annotation.AgentTicket]); err != nil || ticket.Cluster != "a" {
		t.Errorf("ticket %+v, error %v", ticket, err)
	}
	want := map[string]string{"env": "prod", fleet.LabelCreatedByAgentPod: "fleet-agent-pod"}
	if diff := cmp.Diff(want, request.Spec.ClusterLabels); diff != "" || request.Spec.ClientID != "client-a" {
		t.Errorf("client ID %s, labels (-want +got):\n%s", request.Spec.ClientID, diff)
	}
	if request.Annotations[annotation.AgentRenews] != "true" {
		t.Error("the agent does not announce that it renews its token")
	}
}

func TestRecoveryStories_MatchTheGoldens(t *testing.T) {
	inWorld(t, "recovers-without-secret", func(t *testing.T, w *world) {
		k := w.keeper()
		k.keep(w)
		w.run(time.Hour)
		k.expectSigned(t, w.requests[0])
		w.expectKept(k.kept(w))
	})
	inWorld(t, "recovers-when-rejected", func(t *testing.T, w *world) {
		k := w.keeper()
		k.keep(w)
		w.accounts["old"] = true
		w.identitySecret("old")
		w.later(5*time.Minute, "hub", "no longer knows the account", func() {
			delete(w.accounts, "old")
			w.turnAway(401, nil)
		})
		w.run(time.Hour)
		k.expectSigned(t, w.requests[0])
	})
	inWorld(t, "recovers-after-outage", func(t *testing.T, w *world) {
		k := w.keeper()
		k.keep(w)
		w.accounts["old"] = true
		w.identitySecret("old")
		w.down = true
		w.later(time.Hour+7*time.Second, "hub", "is back, and the token has expired", func() { w.down = false; delete(w.accounts, "old") })
		w.run(2 * time.Hour)
		k.expectSigned(t, w.requests[0])
	})
	inWorld(t, "recovers-not-if-accepted-again", func(t *testing.T, w *world) {
		w.keeper().keep(w)
		w.identitySecret("old")
		w.later(20*time.Second, "hub", "accepts the account again", func() { w.accounts["old"] = true })
		w.run(time.Hour)
	})
	inWorld(t, "recovers-with-bootstrap", func(_ *testing.T, w *world) {
		w.keeper().keep(w)
		w.later(5*time.Second, "admin", "creates a bootstrap secret", func() { w.bootstrapSecret("import-1") })
		w.run(time.Hour)
	})
	inWorld(t, "recovers-after-rejected-bootstrap", func(t *testing.T, w *world) {
		k := w.keeper()
		k.keep(w)
		w.bootstrapSecret("expired")
		w.run(time.Hour)
		k.expectSigned(t, w.requests[0])
	})
	inWorld(t, "recovery-is-refused", func(_ *testing.T, w *world) {
		w.keeper().keep(w)
		w.refuse = apierrors.NewForbidden(fleet.Resource("clusterregistrations"), "", nil)
		w.later(10*time.Minute, "hub", "no longer refuses", func() { w.refuse = nil })
		w.run(time.Hour)
	})
	inWorld(t, "recovery-for-another-key", func(t *testing.T, w *world) {
		w.keeper().keep(w)
		w.sealsFor = newIdentityKey(t).Public()
		w.run(10 * time.Minute)
		w.expectMissing(names.Agent)
	})
}

// The hub rejects the identity, and accepts it again in minute three, while it does not grant the request that the agent has made
// meanwhile. A bootstrap secret of another hub, or without which the agent could not return, is used nevertheless.
func TestIdentityAcceptedAgainBeforeTheGrant_IsUsed(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world, *keeper)
		serves  string // at this address
		token   string
	}{
		"recovery request is pending": {serves: hubURL, token: "old", prepare: func(w *world, k *keeper) { k.keep(w) }},
		"recovery request is refused": {serves: hubURL, token: "old", prepare: func(w *world, k *keeper) {
			k.keep(w)
			w.refuse = apierrors.NewForbidden(fleet.Resource("clusterregistrations"), "", nil)
		}},
		"bootstrap request is pending": {serves: hubURL, token: "old", prepare: func(w *world, k *keeper) {
			k.keep(w)
			w.bootstrapSecret("import-1")
		}},
		"bootstrap request is pending, no recovery is possible": {serves: hubURL, token: "account-1", prepare: func(w *world, _ *keeper) {
			w.bootstrapSecret("import-1")
		}},
		"bootstrap request to another hub is pending": {serves: otherURL, token: "account-1", prepare: func(w *world, k *keeper) {
			k.keep(w)
			w.bootstrapSecret("import-1", at(otherURL))
		}},
		"bootstrap secret of the moved hub arrives": {serves: movedURL, token: "old", prepare: func(w *world, k *keeper) {
			k.keep(w)
			w.anonymous = map[string]string{movedURL: k.signed(w, 6, movedURL, w.ca)}
			w.later(3*time.Minute+time.Second, "admin", "upgrades the chart", func() { w.bootstrapSecret("import-1", at(movedURL)) })
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.grant.credential = 10 * time.Minute
				w.identitySecret("old")
				test.prepare(w, w.keeper())
				w.later(3*time.Minute, "hub", "accepts the account again", func() { w.accounts["old"] = true })
				w.run(20 * time.Minute)
				if w.times("POST clusterregistration") == 0 || w.times("serves fleet-default") == 0 || w.hub.Host != test.serves || w.token() != test.token {
					t.Errorf("the agent does not serve as %s at %s:\n%s", test.token, test.serves, strings.Join(w.lines, "\n"))
				}
				w.expectMissing(names.AgentBootstrap)
			})
		})
	}
}

// The agent joins another hub, and the recovery Secret cannot be written for five minutes. The identity is lost before or after that.
// The data of the earlier hub must not be used.
func TestRecoverySecretNotWrittenAtAChangeOfHub_AgentStaysWithTheNewHub(t *testing.T) {
	for name, test := range map[string]struct {
		lost     time.Duration
		isKeeper bool // the new hub gives what a recovery needs
		requests int
	}{
		"lost before the Secret is written":                          {3 * time.Minute, true, 2},
		"lost after a restart":                                       {10*time.Minute + time.Second, true, 2},
		"lost before the Secret is written, new hub has no recovery": {3 * time.Minute, false, 1},
		"lost after a restart, new hub has no recovery":              {10*time.Minute + time.Second, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.keeper().keep(w)
				if !test.isKeeper {
					w.gives = nil
				}
				w.local.PrependReactor("update", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
					isRefused := isRecovery(action.(clienttesting.UpdateAction).GetObject()) && time.Since(w.start) < 5*time.Minute
					return isRefused, nil, errors.New("etcdserver: request timed out")
				})
				w.bootstrapSecret("import-1", at(movedURL))
				reported := "nothing was read"
				w.later(2*time.Minute, "hub", "reads the heartbeat", func() { reported = w.receipt() })
				w.later(test.lost, "user", "deletes the identity", func() { delete(w.accounts, "account-1"); w.remove(names.Agent); w.turnAway(401, nil) })
				w.run(10 * time.Minute)
				w.run(10 * time.Minute)
				if reported != "" {
					t.Errorf("reported a receipt for the data of the earlier hub: %q", reported)
				}
				if len(w.requests) != test.requests || w.hub.Host != movedURL {
					t.Errorf("%d requests, want %d; the agent served last at %s:\n%s", len(w.requests), test.requests, w.hub.Host, strings.Join(w.lines, "\n"))
				}
			})
		})
	}
}

// A hub that gives nothing for a recovery is served as before: the recovery Secret does not change.
func TestHubThatGivesNothing_RecoverySecretStaysAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		before := w.storedData()
		w.bootstrapSecret("import-1")
		w.run(72 * time.Hour)
		if diff := cmp.Diff(before, w.storedData()); diff != "" || w.times("serves fleet-default") != 1 {
			t.Errorf("served %d times; recovery Secret (-want +got):\n%s", w.times("serves fleet-default"), diff)
		}
	})
}

// A tenant of the hub may have a Secret of that name copied to the Cluster's namespace, with a key that is not the hub's.
func TestRecoverySecretOfAnotherType_IsNotTakenFromTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper()
		w.givesType, w.logs = corev1.SecretTypeOpaque, true
		before := w.storedData()
		w.accounts["account-0"] = true
		w.identitySecret("account-0")
		w.run(48 * time.Hour)
		if diff := cmp.Diff(before, w.storedData()); diff != "" || w.reads == 0 {
			t.Errorf("read %d times; recovery Secret (-want +got):\n%s", w.reads, diff)
		}
		if w.times("To delete it, run on the hub: kubectl delete secret -n cluster-fleet-default-a-0123456789ab fleet-recovery") == 0 {
			t.Errorf("the Secret is not in the log:\n%s", strings.Join(w.lines, "\n"))
		}
	})
}

// What an earlier hub gave must not bring the agent back to that hub.
func TestRegistrationAtHubThatGivesNothing_ForgetsEarlierHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper().keep(w)
		w.gives = nil
		w.bootstrapSecret("import-1")
		w.run(time.Hour)
		if got := slices.Collect(maps.Keys(w.storedData())); !cmp.Equal(got, []string{protocol.RecoveryKeyKey}) {
			t.Errorf("keys of the recovery Secret: %v", got)
		}
	})
}

func TestRecoveryValues_AreStored(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"with the credential of a new agent": func(w *world) {
			w.configureText(`{"clientID":"client-a"}`)
			w.bootstrapSecret("import-1")
		},
		"later, for an agent that joined before": func(w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.keeper()
				prepare(w)
				w.run(time.Hour)
				w.expectKept(k.kept(w))
				key, err := identity.ParseKey(w.storedData()[protocol.RecoveryKeyKey])
				if err != nil || key.Public() != k.agent.Public() || w.times("recovery Secret") != 1 {
					t.Errorf("key %v (%v); written:\n%s", key, err, strings.Join(w.lines, "\n"))
				}
			})
		})
	}
}

// The hub writes no Secret for an agent that got everything with its credential. The agent reports what it has, and stores
// it again if it was deleted.
func TestAgentWithCurrentData_ReportsThemAndNeedsNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := w.keeper()
		w.upToDate = true
		w.configureText(`{"clientID":"client-a"}`)
		w.bootstrapSecret("import-1")
		w.later(time.Hour, "admin", "deletes the recovery Secret", w.removeRecovery)
		w.run(48 * time.Hour)
		if want := identity.Receipt(k.hub.Public(), w.recoveryToken, k.hub.WorkspaceKey("fleet-default"), k.ticket); w.receipt() != want {
			t.Errorf("reported %q, want %q", w.receipt(), want)
		}
		if w.reads == 0 || w.reads > 4 {
			t.Errorf("Secret fleet-recovery was read %d times in two days", w.reads)
		}
		w.expectKept(k.kept(w))
	})
}

// An agent reports damaged data as such, so that the hub writes the Secret, from which it stores them again.
func TestAgentWithDamagedData_AsksForThemAgain(t *testing.T) {
	for key, left := range map[string]int{
		"recoveryToken": 20, "recoveryTicket": 20, "hubKey": 20, "workspaceKey": 20, "apiServerURL": 5, "clusterNamespace": 0, "systemRegistrationNamespace": 0,
	} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.keeper()
				k.keep(w, func(data map[string][]byte) { data[key] = data[key][:left] })
				w.accounts["account-0"] = true
				w.identitySecret("account-0")
				w.upToDate = true
				current := identity.Receipt(k.hub.Public(), w.recoveryToken, k.hub.WorkspaceKey("fleet-default"), k.ticket)
				w.later(time.Minute, "hub", "reads the heartbeat", func() { w.upToDate = w.receipt() == current })
				w.run(time.Hour)
				if w.upToDate {
					t.Errorf("reported complete data: %q", current)
				}
				w.expectKept(k.kept(w))
			})
		})
	}
}

// The agent neither exits because of a damaged value nor uses it.
func TestDamagedRecoverySecret_ValueIsNotUsed(t *testing.T) {
	truncate := func(key string) func(map[string][]byte) {
		return func(data map[string][]byte) { data[key] = data[key][:len(data[key])/2] }
	}
	for name, test := range map[string]struct {
		damage func(map[string][]byte)
		served int
		text   string // in the story
	}{
		"token is truncated: a hub document is read":       {damage: truncate("recoveryToken"), text: "GET hub document without a credential"},
		"token and hub's key are truncated: as without":    {damage: func(d map[string][]byte) { truncate("recoveryToken")(d); delete(d, "hubKey") }, text: "ends: the agent has neither"},
		"address is truncated: as without one":             {damage: func(d map[string][]byte) { d["apiServerURL"] = []byte("http") }, text: "ends: the agent has neither"},
		"everything but the key is missing: as before":     {damage: func(d map[string][]byte) { clear(d) }, text: "ends: the agent has neither"},
		"hub's key is truncated: the hub reads the ticket": {damage: truncate("hubKey"), served: 1, text: "POST clusterregistration as fleet-recovery: ok"},
		"workspace key is truncated: not needed":           {damage: truncate("workspaceKey"), served: 1, text: "POST clusterregistration as fleet-recovery: ok"},
		"client ID is missing: the ticket has it":          {damage: func(d map[string][]byte) { delete(d, "clientID") }, served: 1, text: "fleet-recovery: ok"},
		"serial is no number: ignored":                     {damage: func(d map[string][]byte) { d["serial"] = []byte("x") }, served: 1, text: "fleet-recovery: ok"},
		"key is truncated: another key, the hub decides":   {damage: truncate("key"), served: 1, text: "recovery Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.keeper().keep(w, test.damage)
				w.run(10 * time.Minute)
				if story := strings.Join(w.lines, "\n"); w.times("serves fleet-default") != test.served || !strings.Contains(story, test.text) {
					t.Errorf("served %d times, want %d and %q:\n%s", w.times("serves fleet-default"), test.served, test.text, story)
				}
			})
		})
	}
}

// The key and the data are restored if the recovery Secret was deleted while the agent ran.
func TestDeletedRecoverySecret_IsRestoredAtTheNextRefresh(t *testing.T) {
	for name, test := range map[string]struct {
		upToDate bool // the hub does not write the data again
		answer   int  // to one request after the deletion
	}{
		"hub accepts all requests":      {answer: http.StatusOK},
		"hub rejects one request: kept": {answer: http.StatusForbidden, upToDate: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.keeper()
				k.keep(w)
				w.upToDate = test.upToDate
				before := w.storedData()[protocol.RecoveryKeyKey]
				w.accounts["account-0"] = true
				w.identitySecret("account-0")
				w.later(time.Hour, "admin", "deletes the recovery Secret", w.removeRecovery)
				w.later(2*time.Hour, "hub", "answers a request", func() { w.turnAway(test.answer, nil) })
				w.run(48 * time.Hour)
				w.expectKept(k.kept(w))
				if !bytes.Equal(before, w.storedData()[protocol.RecoveryKeyKey]) {
					t.Error("the agent created another key")
				}
			})
		})
	}
}

// After fleet.cattle.io/revoke-key, the old key may be in the hands of a thief, and the hub never pins it again.
func TestRecoverySecretDeletedAfterRevocation_AgentSignsWithAnotherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := w.keeper()
		k.keep(w)
		w.accounts["account-0"] = true
		w.identitySecret("account-0")
		w.later(time.Hour, "hub", "revokes the key", func() { delete(w.accounts, "account-0"); w.turnAway(http.StatusUnauthorized, nil) })
		w.later(time.Hour+time.Second, "admin", "deletes the recovery Secret", w.removeRecovery)
		w.later(time.Hour+11*time.Second, "admin", "joins the cluster again", func() { w.bootstrapSecret("import-1") })
		w.run(2 * time.Hour)
		if len(w.requests) != 1 || w.requests[0].Annotations[annotation.AgentKey] == k.agent.Public() {
			t.Errorf("%d requests, want one with another key:\n%s", len(w.requests), strings.Join(w.lines, "\n"))
		}
	})
}
