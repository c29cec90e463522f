package token

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Time until the next attempt when no event will come.
const (
	// pendingDelay is for a token Secret without a token yet.
	pendingDelay = 500 * time.Millisecond
	// blockedDelay is for a Secret of another owner with the token's name. Not all of these Secrets are watched.
	blockedDelay = 15 * time.Second
	// recreatedDelay is for a token in a workspace that is being deleted. The workspace may have been created again, and the
	// cache of namespaces may lag.
	recreatedDelay = 15 * time.Second
)

type handler struct {
	app *hub.App
	set *reconcile.Set
	// rejected maps a ClusterRegistrationToken to the rejection of its bearer token.
	rejected sync.Map
	// pace limits the rate of the trials.
	pace flowcontrol.RateLimiter
	// tried is the last token that was tried although another token of its signer was accepted.
	tried types.NamespacedName
}

// Register watches tokens, everything created for them, and the configured address of the hub, which their values
// contain.
func Register(ctx context.Context, a *hub.App) error {
	return newHandler(a).register(ctx)
}

func newHandler(a *hub.App) *handler {
	return &handler{
		app: a, pace: flowcontrol.NewTokenBucketRateLimiter(trialsPerSecond, trialBurst),
		set: reconcile.NewSet(tokenrule.SetID,
			reconcile.KindOf(a.ServiceAccounts), reconcile.KindOf(a.Roles), reconcile.KindOf(a.RoleBindings), reconcile.KindOf(a.ValuesSecrets)).Parallel(),
	}
}

func (h *handler) register(ctx context.Context) error {
	a := h.app
	a.ClusterRegistrationTokens.OnChange(hub.Lasting(ctx), "token", func(key string, token *fleet.ClusterRegistrationToken) (*fleet.ClusterRegistrationToken, error) {
		return token, h.onChange(ctx, key, token)
	})
	a.BeforeControllers(func(ctx context.Context) {
		go wait.JitterUntilWithContext(ctx, h.tryAll, trialInterval, trialJitter, true)
	})
	a.Config.OnChange(h.onConfig)
	enqueue := reconcile.Enqueue(a.ClusterRegistrationTokens)
	return errors.Join(h.set.Watch(enqueue), a.OnSecret(h.tokenOf, enqueue))
}

// tokenOf returns the token with the name of a Secret.
func (h *handler) tokenOf(secret types.NamespacedName) []types.NamespacedName {
	token, err := reconcile.Optional(h.app.ClusterRegistrationTokens.Cache().Get(secret.Namespace, secret.Name))
	if err != nil || token == nil {
		return nil
	}
	return []types.NamespacedName{secret}
}

func gvk() schema.GroupVersionKind {
	return fleet.SchemeGroupVersion.WithKind("ClusterRegistrationToken")
}

func (h *handler) onChange(ctx context.Context, key string, token *fleet.ClusterRegistrationToken) error {
	if token == nil || token.DeletionTimestamp != nil || h.app.IsDeletingNamespace(token.Namespace) {
		h.rejected.Delete(key)
		if token != nil && token.DeletionTimestamp == nil {
			h.app.ClusterRegistrationTokens.EnqueueAfter(token.Namespace, token.Name, recreatedDelay)
		}
		return h.set.Apply(gone(key)) // delete the account and with it all its tokens now, not when garbage is collected
	}
	in, err := h.gather(ctx, token)
	if err != nil {
		return err
	}
	return h.act(ctx, token, tokenrule.Decide(in))
}

func gone(key string) reconcile.Owner {
	namespace, name, _ := cache.SplitMetaNamespaceKey(key) // keys of handlers are always well formed
	return reconcile.GoneOwner(gvk(), namespace, name)
}

// onConfig enqueues all tokens when the hub's address in their values changes.
func (h *handler) onConfig(old, current config.Config) {
	if old.APIServerURL == current.APIServerURL && string(old.APIServerCA) == string(current.APIServerCA) {
		return
	}
	tokens, err := h.app.ClusterRegistrationTokens.Cache().List("", labels.Everything())
	if err != nil {
		return // the cache has not started; its start enqueues every token
	}
	for _, token := range tokens {
		reconcile.Enqueue(h.app.ClusterRegistrationTokens)(types.NamespacedName{Namespace: token.Namespace, Name: token.Name})
	}
}

func (h *handler) gather(ctx context.Context, token *fleet.ClusterRegistrationToken) (tokenrule.Input, error) {
	conf := h.app.Config.Get()
	in := tokenrule.Input{
		Now: h.app.Clock(), Token: token, TTLRequired: h.app.Env.TTLRequired, DefaultTTL: h.app.Env.DefaultTokenTTL,
		APIServerURL: conf.APIServerURL, APIServerCA: conf.APIServerCA, Namespaces: h.app.Namespaces,
	}
	account := names.ImportAccount(token.Name, string(token.UID))
	var err, secretErr error
	in.Account, err = reconcile.Optional(h.app.ServiceAccounts.Cache().Get(token.Namespace, account))
	role, roleErr := reconcile.Optional(h.app.Roles.Cache().Get(token.Namespace, names.SafeConcat(account, "role")))
	binding, bindingErr := reconcile.Optional(h.app.RoleBindings.Cache().Get(token.Namespace, names.SafeConcat(account, "to", "role")))
	in.RightsExist = role != nil && binding != nil
	in.Secret, secretErr = reconcile.Optional(h.app.ValuesSecrets.Cache().Get(token.Namespace, token.Name))
	if err := errors.Join(err, roleErr, bindingErr, secretErr); err != nil {
		return in, fmt.Errorf("looking at token %s/%s: %w", token.Namespace, token.Name, err)
	}
	h.addState(&in)
	if tokenrule.Decide(in).Mint != nil {
		// Ask the server before the Secret is written: a Secret of another type belongs to another owner and is in
		// none of our caches, and a cache that lags has the values from before they were repaired.
		in.Secret, err = reconcile.Optional(h.app.Kube.CoreV1().Secrets(token.Namespace).Get(ctx, token.Name, metav1.GetOptions{}))
		h.addState(&in)
	}
	return in, err
}

// addState adds whether the Secret has a rejected token or another owner.
func (h *handler) addState(in *tokenrule.Input) {
	in.Rejected = false
	in.Rejected, in.Taken = h.isRejected(*in), h.takenBy(in.Token, in.Secret)
}

// takenBy returns what to do about a Secret that has the name of the values Secret but not the mark of this token, or
// "". It is checked before a bearer token is minted that could not be stored.
func (h *handler) takenBy(token *fleet.ClusterRegistrationToken, secret *corev1.Secret) string {
	if secret == nil {
		return ""
	}
	hash := h.set.Hash(reconcile.OwnerOf(gvk(), token))
	if secret.Labels[fleet.LabelSetHash] == hash {
		return ""
	}
	taken := &reconcile.TakenError{
		GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: secret.Namespace, Name: secret.Name, Hash: hash,
	}
	return taken.Error()
}

func (h *handler) act(ctx context.Context, token *fleet.ClusterRegistrationToken, out tokenrule.Outcome) error {
	if out.Delete {
		return h.end(token, out)
	}
	if !out.Recheck.IsZero() {
		h.app.ClusterRegistrationTokens.EnqueueAfter(token.Namespace, token.Name, out.Recheck.Sub(h.app.Clock())+time.Second)
	}
	if out.Stage == tokenrule.Blocked {
		h.app.ClusterRegistrationTokens.EnqueueAfter(token.Namespace, token.Name, blockedDelay)
	}
	children := out.Children
	if out.Mint != nil {
		var err error
		if token, err = h.complain(token, out); err != nil {
			return err
		}
		secret, err := h.mint(ctx, token, out)
		if again := laterAfter(err); again > 0 {
			h.app.ClusterRegistrationTokens.EnqueueAfter(token.Namespace, token.Name, again)
			return nil
		}
		if err != nil {
			return err
		}
		h.reportReplaced(token, out)
		children = append(children, secret)
		out.Reason = "" // the new token will be valid
	}
	err := h.set.Apply(reconcile.OwnerOf(gvk(), token), children...)
	if taken := (*reconcile.TakenError)(nil); errors.As(err, &taken) {
		h.app.ClusterRegistrationTokens.EnqueueAfter(token.Namespace, token.Name, blockedDelay)
		out.Reason, out.Message, out.Status.SecretName = conditions.ReasonNameTaken, taken.Error(), ""
		_, err = h.report(token, out)
		return err
	}
	if err != nil {
		return fmt.Errorf("token %s/%s: %w", token.Namespace, token.Name, err)
	}
	_, err = h.report(token, out)
	return err
}

// end deletes a token and reports why. The Event remains after the token is gone.
func (h *handler) end(token *fleet.ClusterRegistrationToken, out tokenrule.Outcome) error {
	if _, err := h.report(token, out); err != nil {
		return err
	}
	h.app.Log.Info("token ended", "token", token.Namespace+"/"+token.Name, "reason", out.Reason)
	return reconcile.Delete(h.app.ClusterRegistrationTokens, token)
}

// complain reports the problem with the existing values Secret before another one is created, because that may fail.
func (h *handler) complain(token *fleet.ClusterRegistrationToken, out tokenrule.Outcome) (*fleet.ClusterRegistrationToken, error) {
	if out.Reason == "" {
		return token, nil
	}
	out.Status.SecretName = ""
	return h.report(token, out)
}

// mint returns the values Secret with a new bearer token.
func (h *handler) mint(ctx context.Context, token *fleet.ClusterRegistrationToken, out tokenrule.Outcome) (*corev1.Secret, error) {
	minted, err := accounts.Mint(ctx, h.app.Kube, out.Mint.Namespace, out.Mint.Account, out.Mint.Lifetime)
	if err != nil {
		return nil, err
	}
	if out.Reason == conditions.ReasonTokenRejected {
		if err := h.prove(ctx, token, out.Mint, minted); err != nil {
			return nil, err
		}
	}
	out.Values.Token = minted
	return tokenrule.ValuesSecret(token, out.Values)
}

func (h *handler) report(token *fleet.ClusterRegistrationToken, out tokenrule.Outcome) (*fleet.ClusterRegistrationToken, error) {
	return hub.Report(h.app, h.app.ClusterRegistrationTokens, token, func(t *fleet.ClusterRegistrationToken) {
		t.Status.SecretName, t.Status.Expires, t.Status.DefaultTTL = out.Status.SecretName, out.Status.Expires, out.Status.DefaultTTL
		conditions.Set(&t.Status.Conditions, h.app.Clock(), readiness(out))
	})
}

// readiness returns the condition for an outcome.
func readiness(out tokenrule.Outcome) genericcondition.GenericCondition {
	condition := genericcondition.GenericCondition{Type: conditions.Ready, Status: corev1.ConditionFalse}
	switch {
	case out.Reason != "":
		condition.Reason, condition.Message = out.Reason, out.Message
	case out.Stage == tokenrule.Ready, out.Stage == tokenrule.Minting:
		condition.Status = corev1.ConditionTrue
	default:
		condition.Reason, condition.Message = conditions.ReasonAwaitingRights, "the account of the token is being created"
	}
	return condition
}
