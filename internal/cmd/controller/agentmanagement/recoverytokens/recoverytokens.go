package recoverytokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
)

// The tokens of all workspaces are reviewed at start and then at this interval, each time up to a fifth later, and at
// most this many at once or in a second.
const (
	interval         = time.Hour
	jitter           = 0.2
	reviewsPerSecond = 1
	reviewsAtOnce    = 20
)

// probeLifetime is the lifetime of a token that is created only to see whether the API server accepts new ones. It is the
// shortest that API servers give.
const probeLifetime = 10 * time.Minute

// newAccount is the age up to which an account may have no token Secret yet.
const newAccount = 5 * time.Minute

// again is the time until a token is reviewed again that was rejected, or whose review or replacement failed.
const again = time.Minute

type handler struct {
	app  *hub.App
	pace flowcontrol.RateLimiter
	// pause waits before failed reviews are repeated. It returns false if ctx has ended.
	pause func(ctx context.Context) bool
	// rejected are the tokens that were rejected in their last review, by the account.
	rejected map[types.UID]string
}

// Register reviews the recovery tokens while the controllers run.
func Register(_ context.Context, a *hub.App) error {
	h := newHandler(a, flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewsAtOnce), func(ctx context.Context) bool {
		select {
		case <-time.After(again):
			return true
		case <-ctx.Done():
			return false
		}
	})
	a.BeforeControllers(func(ctx context.Context) {
		go wait.JitterUntilWithContext(ctx, h.reviewAll, interval, jitter, true)
	})
	return nil
}

func newHandler(a *hub.App, pace flowcontrol.RateLimiter, pause func(context.Context) bool) *handler {
	return &handler{app: a, pace: pace, pause: pause, rejected: map[types.UID]string{}}
}

// reviewAll reviews the recovery token of each workspace. It repeats reviews that failed, and begins no round later than half of the
// interval after the first one has ended. A round may take longer on a hub with very many workspaces.
func (h *handler) reviewAll(ctx context.Context) {
	failed := h.reviewEach(ctx, func(*corev1.ServiceAccount) bool { return true })
	limited, cancel := context.WithTimeout(ctx, interval/2)
	defer cancel()
	for len(failed) > 0 && h.pause(limited) {
		failed = h.reviewEach(ctx, func(account *corev1.ServiceAccount) bool { return failed[account.UID] })
	}
}

// reviewEach reviews the tokens of selected accounts, and returns the accounts for which that failed. It logs the first failure, as
// the others often have the same cause.
func (h *handler) reviewEach(ctx context.Context, selected func(*corev1.ServiceAccount) bool) map[types.UID]bool {
	all, err := h.app.ServiceAccounts.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return nil // only a cache that has not started
	}
	var workspaces []string // with an error that is reported
	var first error
	failed := map[types.UID]bool{}
	for _, account := range all {
		if !recoveries.IsAccount(account) || !selected(account) {
			continue
		}
		if h.pace.Wait(ctx) != nil {
			return nil // the process is stopping
		}
		err := h.review(ctx, account)
		if err == nil || ctx.Err() != nil {
			continue
		}
		failed[account.UID] = true
		if !errors.Is(err, accounts.ErrTokenPending) { // which is usual for a new workspace
			workspaces, first = append(workspaces, account.Namespace), cmp.Or(first, err)
		}
	}
	if first != nil {
		h.app.Log.Warn("reviewing recovery tokens failed", "workspaces", len(workspaces), "namespace", workspaces[0], "error", first)
	}
	return failed
}

// review replaces a token that the API server rejects twice, although it accepts a new token of the same account. It also
// replaces an account whose token Secret was deleted: every process caches the token by the UID of the account.
func (h *handler) review(ctx context.Context, account *corev1.ServiceAccount) error {
	secret, err := h.app.Recoveries.ReadToken(ctx, account)
	if err != nil {
		return err
	}
	isNew := h.app.Clock().Sub(account.CreationTimestamp.Time) <= newAccount
	isPending := !recoveries.IsTokenOf(secret, account) || len(secret.Data[corev1.ServiceAccountTokenKey]) == 0
	switch {
	case secret == nil && !isNew:
		return h.deleteAccount(account, "its Secret does not exist")
	case isPending && isNew:
		return accounts.ErrTokenPending
	case isPending:
		return nil // not filled yet
	}
	bearer := recoveries.TokenIn(secret, account)
	if bearer == "" {
		return h.replace(ctx, account, secret, "its Secret contains something else")
	}
	accepted, err := accounts.Review(ctx, h.app.Kube, bearer)
	if err != nil {
		return err
	}
	if accepted {
		delete(h.rejected, account.UID)
		return nil
	}
	if h.rejected[account.UID] != bearer {
		h.rejected[account.UID] = bearer
		return errRejected
	}
	return h.replaceRejected(ctx, account, secret)
}

// replaceRejected replaces a rejected token if the API server accepts a new one of the same account.
func (h *handler) replaceRejected(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) error {
	probe, err := accounts.MintRenewed(ctx, h.app.Kube, account.Namespace, account.Name, probeLifetime)
	if err != nil {
		return err
	}
	if accepted, err := accounts.Review(ctx, h.app.Kube, probe); err != nil || !accepted {
		return errors.Join(err, errNoneAccepted)
	}
	return h.replace(ctx, account, secret, "the API server rejected it")
}

// errRejected means that a token was rejected for the first time, which may be a mistake.
var errRejected = errors.New("the API server rejects the token; it will be replaced if the next review rejects it, too")

// errNoneAccepted means that another token would be rejected, too.
var errNoneAccepted = errors.New("the API server accepts no token of the recovery account")

// replace deletes a token Secret, and then its account. In this order the next account gets a Secret of its own.
func (h *handler) replace(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret, reason string) error {
	err := h.app.Kube.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, *metav1.NewPreconditionDeleteOptions(string(secret.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return h.deleteAccount(account, reason)
}

// deleteAccount deletes a recovery account, so that the recovery controller creates another one with its own token.
func (h *handler) deleteAccount(account *corev1.ServiceAccount, reason string) error {
	err := h.app.ServiceAccounts.Delete(account.Namespace, account.Name, metav1.NewPreconditionDeleteOptions(string(account.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	delete(h.rejected, account.UID)
	h.app.Log.Info("recovery token replaced", "namespace", account.Namespace, "reason", reason)
	return nil
}
