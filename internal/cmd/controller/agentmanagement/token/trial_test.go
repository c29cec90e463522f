package token

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const rejectedMessage = "the hub's API server no longer accepts the bearer token in the values Secret, as after a change of its signing key: another one is being written; install agents that are still to register with the new values"

// startTrying is start with the handler at hand, on a hub where ws/t1 has its values.
func startTrying(t *testing.T) (*hubtest.Hub, *handler) {
	t.Helper()
	hub := hubtest.New(t)
	h := newHandler(hub.App)
	if err := h.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	hub.Put(token())
	settle(t, hub, 3)
	hub.Requests()
	hub.Woken()
	hub.Told()
	return hub, h
}

// changeKey lets the API server accept no token that there is now.
func changeKey(t *testing.T, hub *hubtest.Hub) (old string) {
	t.Helper()
	old = values(t, hub).Token
	hub.RejectTokens(func(token string) bool { return token == old })
	hub.Pass(time.Second) // a new token is another one
	return old
}

func TestAfterAChangeOfTheSigningKey_ValuesGetAnotherToken(t *testing.T) {
	hub, h := startTrying(t)
	old := changeKey(t, hub)
	h.tryAll(t.Context())
	expectRequests(t, hub, "review token")
	hubtest.ExpectWoken(t, hub, tokens+" ws/t1")
	handle(t, hub)
	if got := values(t, hub).Token; got == old {
		t.Error("the values still have the token that is not accepted")
	}
	expectReady(t, hub, genericcondition.GenericCondition{Status: "True"})
	if told := strings.Join(hub.Told(), "\n"); !strings.HasPrefix(told, "Warning TokenRejected ") {
		t.Errorf("told %q", told)
	}
	hub.Sync()
	hub.Requests()
	h.tryAll(t.Context())
	handle(t, hub)
	expectRequests(t, hub, "review token") // all is well
}

func TestWhileNoOtherTokenIsAccepted_TheConditionTells(t *testing.T) {
	hub, h := startTrying(t)
	old := changeKey(t, hub)
	hub.RejectTokens(func(string) bool { return true })
	h.tryAll(t.Context())
	handle(t, hub)
	expectReady(t, hub, genericcondition.GenericCondition{Status: "False", Reason: conditions.ReasonTokenRejected, Message: rejectedMessage})
	if got := values(t, hub).Token; got != old {
		t.Error("the values were replaced by others that are not accepted")
	}
	hub.Sync()
	hub.RejectTokens(func(token string) bool { return token == old })
	handle(t, hub)
	expectReady(t, hub, genericcondition.GenericCondition{Status: "True"})
}

// haveTokenSecret lets the hub give tokens without an end only, from a Secret that holds the old token.
func haveTokenSecret(t *testing.T, hub *hubtest.Hub, old string) {
	t.Helper()
	hub.CapTokens(time.Hour)
	uid := hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", account).UID
	filled := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(old)}}
	filled.Namespace, filled.Name = "ws", account+"-token"
	filled.Annotations = map[string]string{corev1.ServiceAccountUIDKey: string(uid)}
	hub.Have(filled)
}

// A token Secret that was filled before the change has the old token for ever.
func TestATokenSecretThatIsRejected_IsReplacedAfterAMinute(t *testing.T) {
	hub, h := startTrying(t)
	old := changeKey(t, hub)
	haveTokenSecret(t, hub, old)
	h.tryAll(t.Context())
	handle(t, hub)
	if hubtest.Get[*corev1.Secret](hub, "ws", account+"-token") == nil {
		t.Fatal("the token Secret was deleted at once")
	}
	hub.Pass(rejectedDelay - time.Second)
	h.tryAll(t.Context()) // does not extend the minute
	hub.Pass(time.Second)
	handle(t, hub)
	if hubtest.Get[*corev1.Secret](hub, "ws", account+"-token") != nil {
		t.Error("the token Secret is still there")
	}
	if got := values(t, hub).Token; got != old {
		t.Error("the values were replaced by nothing new")
	}
}

// An API server can reject a token by mistake, for example while it cannot read the account.
func TestATokenSecretThatIsRejectedOnce_IsKept(t *testing.T) {
	hub, h := startTrying(t)
	old := changeKey(t, hub)
	haveTokenSecret(t, hub, old)
	h.tryAll(t.Context())
	hub.RejectTokens(func(string) bool { return false })
	handle(t, hub)
	if hubtest.Get[*corev1.Secret](hub, "ws", account+"-token") == nil {
		t.Fatal("the token Secret of an accepted token was deleted")
	}
	hub.Sync()
	handle(t, hub)
	expectReady(t, hub, genericcondition.GenericCondition{Status: "True"})
	if told := strings.Join(hub.Told(), "\n"); strings.Contains(told, "it was replaced") {
		t.Errorf("told %q", told)
	}
}

func TestATrialThatFails_ChangesNothing(t *testing.T) {
	hub, h := startTrying(t)
	hub.Fail("review token", errServer)
	h.tryAll(t.Context())
	hubtest.ExpectWoken(t, hub)
	expectRequests(t, hub, "review token")
}

// putTokens lets the hub have as many more tokens, whose values hold bearer tokens with or without an end.
func putTokens(t *testing.T, hub *hubtest.Hub, prefix string, count int, ends time.Time) (held []string) {
	t.Helper()
	for n := range count {
		name := fmt.Sprintf("%s%02d", prefix, n)
		one := token(func(t *fleet.ClusterRegistrationToken) { t.Name, t.UID = name, types.UID("u-"+name) })
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name, account.UID = "ws", names.ImportAccount(name, "u-"+name), types.UID("a-"+name)
		account.Labels = map[string]string{fleet.LabelManaged: "true"}
		secret, err := tokenrule.ValuesSecret(one, protocol.Values{Token: rulestest.BoundJWT("a-"+name, ends)})
		if err != nil {
			t.Fatal(err)
		}
		values, err := protocol.ParseValues(secret.Data[protocol.ValuesKey])
		if err != nil {
			t.Fatal(err)
		}
		hub.Put(one, account, secret)
		held = append(held, values.Token)
	}
	hub.Requests()
	hub.Woken()
	return held
}

// That one token is accepted says that the key is the same, but not that every other one is whole.
func TestTokensOfOneSigner_SomeAreTriedEachTime(t *testing.T) {
	hub, h := startTrying(t)
	held := putTokens(t, hub, "u", 25, hub.Now().Add(1000*time.Hour))
	putTokens(t, hub, "v", 5, time.Time{}) // which are all tried
	hub.RejectTokens(func(token string) bool { return token == held[17] })
	h.tryAll(t.Context())
	if got := len(hub.Requests()); got > 17 { // one of each signer, ten, and those without an end
		t.Errorf("%d tokens are tried at once", got)
	}
	for range 2 {
		hubtest.ExpectWoken(t, hub)
		h.tryAll(t.Context())
		if got := len(hub.Requests()); got > 17 {
			t.Errorf("%d tokens are tried at once", got)
		}
		if woken := hub.Woken(); slices.Contains(woken, tokens+" ws/u17") {
			return
		}
	}
	t.Error("a token that is not accepted is not found in three times")
}

// A token from a token Secret has no end, and ends with that Secret.
func TestTokensWithoutAnEnd_AreAllTried(t *testing.T) {
	hub, h := startTrying(t)
	held := putTokens(t, hub, "u", 15, time.Time{})
	hub.RejectTokens(func(token string) bool { return token == held[14] })
	h.tryAll(t.Context())
	if got := len(hub.Requests()); got != 16 {
		t.Errorf("%d tokens are tried, want all 16", got)
	}
	hubtest.ExpectWoken(t, hub, tokens+" ws/u14")
}

// Whoever may write one Secret is not to have those of others replaced.
func TestForgedTokenOfTheSameSigner_OnlyItsOwnIsReplaced(t *testing.T) {
	hub, h := startTrying(t)
	putTokens(t, hub, "u", 2, time.Time{})
	forged := values(t, hub).Token
	hub.RejectTokens(func(token string) bool { return token == forged })
	h.tryAll(t.Context())
	expectRequests(t, hub, "review token", "review token", "review token")
	hubtest.ExpectWoken(t, hub, tokens+" ws/t1")
}
