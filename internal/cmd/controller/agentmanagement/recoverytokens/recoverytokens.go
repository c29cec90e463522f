package recoverytokens

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

type handler struct {
	app  *hub.App
	pace flowcontrol.RateLimiter
}

// Register reviews the recovery tokens while the controllers run.
func Register(_ context.Context, a *hub.App) error {
	h := &handler{app: a, pace: flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewsAtOnce)}
	a.BeforeControllers(func(ctx context.Context) {
		go wait.JitterUntilWithContext(ctx, h.reviewAll, interval, jitter, true)
	})
	return nil
}

// reviewAll reviews the recovery token of each workspace.
func (h *handler) reviewAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, interval/2)
	defer cancel()
	all, err := h.app.ServiceAccounts.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return // only a cache that has not started
	}
	for _, account := range all {
		if !recoveries.IsAccount(account) {
			continue
		}
		if h.pace.Wait(ctx) != nil {
			return // the process is stopping, or the others are reviewed next time
		}
		if err := h.review(ctx, account); err != nil && ctx.Err() == nil {
			h.app.Log.Warn("reviewing a recovery token failed", "namespace", account.Namespace, "error", err)
		}
	}
}

// review replaces a token that the API server rejects although it accepts a new token of the same account. It also
// replaces an account whose token Secret was deleted: every process caches the token by the UID of the account.
func (h *handler) review(ctx context.Context, account *corev1.ServiceAccount) error {
	secret, err := h.app.Recoveries.ReadToken(ctx, account)
	if err != nil {
		return err
	}
	if secret == nil && h.app.Clock().Sub(account.CreationTimestamp.Time) > newAccount {
		return h.deleteAccount(account, "its Secret does not exist")
	}
	if !recoveries.IsTokenOf(secret, account) || len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
		return nil // not filled yet
	}
	bearer := recoveries.TokenIn(secret, account)
	if bearer == "" {
		return h.replace(ctx, account, secret, "its Secret contains something else")
	}
	accepted, err := accounts.Review(ctx, h.app.Kube, bearer)
	if err != nil || accepted {
		return err
	}
	probe, err := accounts.MintRenewed(ctx, h.app.Kube, account.Namespace, account.Name, probeLifetime)
	if err != nil {
		return err
	}
	if accepted, err = accounts.Review(ctx, h.app.Kube, probe); err != nil || !accepted {
		return errors.Join(err, errNoneAccepted)
	}
	return h.replace(ctx, account, secret, "the API server rejected it")
}

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
	h.app.Log.Info("recovery token replaced", "namespace", account.Namespace, "reason", reason)
	return nil
}
