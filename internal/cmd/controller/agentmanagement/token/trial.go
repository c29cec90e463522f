package token

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// An API server whose signing key or issuer has changed accepts none of the tokens that it issued before, and no
// event reports that. So the bearer tokens in values Secrets are reviewed: when a controller starts,
// and then once an hour with some jitter, so that hubs do not send their requests together. Once a token of a signer
// is accepted, the signer's key is known to be valid. The other tokens can still have a broken signature, so a few of
// them are tried each time, in turn. A token without an expiry comes from a token Secret and ends with that Secret,
// so each of these is tried.
const (
	trialInterval   = time.Hour
	trialJitter     = 0.2
	trialSample     = 10
	trialsPerSecond = 5
	trialBurst      = 20
)

// rejectedDelay is the time until a token is minted again if the API server did not accept the last one either. A token
// Secret is deleted if the API server has not accepted its token for so long.
const rejectedDelay = time.Minute

// errRejected means that the API server does not accept a token that it has just issued.
var errRejected = errors.New("the API server does not accept the token it has issued")

// errAccepted means that the API server accepts a token that it rejected before.
var errAccepted = errors.New("the API server accepts the token again")

// trial is the bearer token in one values Secret.
type trial struct {
	of            types.NamespacedName
	signer, token string
	endless       bool
}

// tryAll tries as many of the tokens in values Secrets as necessary.
func (h *handler) tryAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, trialInterval/2)
	defer cancel()
	accepted, sampled := map[string]bool{}, 0
	for _, one := range h.inTurn(h.trials()) {
		if accepted[one.signer] && !one.endless {
			if sampled++; sampled > trialSample {
				continue
			}
			h.tried = one.of
		}
		if h.pace.Wait(ctx) != nil {
			return
		}
		accepts, err := accounts.Review(ctx, h.app.Kube, one.token)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.app.Log.Debug("a token could not be tried", "token", one.of.String(), "error", err)
			continue
		}
		if accepts {
			accepted[one.signer] = true
			if h.rejectionOf(one.of.String()).is(one.token) { // it was a mistake
				h.rejected.Delete(one.of.String())
				reconcile.Enqueue(h.app.ClusterRegistrationTokens)(one.of)
			}
			continue
		}
		h.app.Log.Warn("the API server no longer accepts the bearer token of a token", "token", one.of.String())
		if !h.rejectionOf(one.of.String()).is(one.token) {
			h.rejected.Store(one.of.String(), rejection{one.token, h.app.OwnClock()})
		}
		reconcile.Enqueue(h.app.ClusterRegistrationTokens)(one.of)
	}
}

// inTurn returns the trials in their order, starting after the last sample.
func (h *handler) inTurn(all []trial) []trial {
	next := slices.IndexFunc(all, func(t trial) bool { return compareNames(t.of, h.tried) > 0 })
	if next < 0 {
		return all
	}
	return append(slices.Clone(all[next:]), all[:next]...)
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// trials returns the tokens that should be accepted, ordered by name.
func (h *handler) trials() (found []trial) {
	tokens, err := h.app.ClusterRegistrationTokens.Cache().List("", labels.Everything())
	if err != nil {
		return nil // only a cache that has not started
	}
	for _, token := range tokens {
		if token.DeletionTimestamp != nil {
			continue
		}
		account, accountErr := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(token.Namespace, names.ImportAccount(token.Name, string(token.UID))))
		secret, secretErr := reconcile.Optional(h.app.ValuesSecrets.Cache().Get(token.Namespace, token.Name))
		if accountErr != nil || secretErr != nil {
			continue
		}
		held := tokenrule.HeldToken(tokenrule.Input{Now: h.app.Clock(), Token: token, Account: account, Secret: secret})
		if parsed, err := protocol.ParseAccountToken(held); err == nil {
			of := types.NamespacedName{Namespace: token.Namespace, Name: token.Name}
			found = append(found, trial{of, protocol.SignerOf(held), held, parsed.Expires.IsZero()})
		}
	}
	slices.SortFunc(found, func(a, b trial) int { return compareNames(a.of, b.of) })
	return found
}

// isRejected reports whether the API server has rejected the token in a values Secret.
func (h *handler) isRejected(in tokenrule.Input) bool {
	return h.rejectionOf(in.Token.Namespace + "/" + in.Token.Name).is(tokenrule.HeldToken(in))
}

// rejection is a bearer token that the API server does not accept, and when that was first seen.
type rejection struct {
	token string
	since time.Time
}

func (r rejection) is(token string) bool { return r.token == token && token != "" }

// rejectionOf returns the rejection of the token in a values Secret, or the zero value.
func (h *handler) rejectionOf(key string) rejection {
	known, _ := h.rejected.Load(key)
	found, _ := known.(rejection)
	return found
}

// prove checks that the API server accepts a token that replaces a rejected one. A token Secret yields the rejected token
// again. Its deletion would revoke the token for all who hold it, so one failed review is not enough for it.
func (h *handler) prove(ctx context.Context, token *fleet.ClusterRegistrationToken, mint *protocol.Mint, minted string) error {
	key := token.Namespace + "/" + token.Name
	rejected := h.rejectionOf(key)
	accepts, err := accounts.Review(ctx, h.app.Kube, minted)
	switch {
	case err != nil:
		return err
	case accepts && rejected.is(minted):
		h.rejected.Delete(key)
		return errAccepted
	case accepts:
		return nil
	case !rejected.is(minted) || h.app.OwnClock().Sub(rejected.since) < rejectedDelay:
		return errRejected
	}
	if err := accounts.DropTokenSecret(ctx, h.app.Kube, mint.Namespace, mint.Account); err != nil {
		return err
	}
	return accounts.ErrTokenPending
}

// laterAfter returns when to mint again after an error that resolves itself. It returns 0 for all other errors.
func laterAfter(err error) time.Duration {
	switch {
	case errors.Is(err, accounts.ErrTokenPending), errors.Is(err, errAccepted):
		return pendingDelay
	case errors.Is(err, errRejected):
		return rejectedDelay
	}
	return 0
}

// reportReplaced reports that values were replaced because the API server no longer accepts the old token.
func (h *handler) reportReplaced(token *fleet.ClusterRegistrationToken, out tokenrule.Outcome) {
	if out.Reason != conditions.ReasonTokenRejected {
		return
	}
	h.app.Log.Info("values of a token replaced", "token", token.Namespace+"/"+token.Name)
	h.app.Recorder.Event(token, corev1.EventTypeWarning, conditions.ReasonTokenRejected, "the hub's API server no longer accepted the bearer token in the values Secret, and it was replaced: install agents that are still to register with the new values")
}
