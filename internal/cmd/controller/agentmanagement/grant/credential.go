package grant

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Time until the next attempt to hand out a credential.
const (
	// notInForceDelay is for rights that were written but that the API server does not apply yet. notInForceSoon
	// after the request was created, something is probably wrong with them, and notInForceLate is used instead.
	notInForceDelay = 25 * time.Millisecond
	notInForceSoon  = 10 * time.Second
	notInForceLate  = 2 * time.Second
	// recoveryDelay is for the recovery token of a workspace's first Cluster, which the controller-manager creates.
	recoveryDelay = 100 * time.Millisecond
	// pendingDelay is for a token Secret without a token yet.
	pendingDelay = 500 * time.Millisecond
)

// errAnswersAnother means that the credential Secret answers another request.
var errAnswersAnother = errors.New("the credential Secret belongs to another ClusterRegistration")

// handOut hands out the credential. This is done only once the token can be used, because an agent whose token is
// refused registers again. If it is too early, the request is enqueued for the next attempt.
func (h *handler) handOut(ctx context.Context, r *run) error {
	if err := h.mint(ctx, r); err != nil || r.later {
		return err
	}
	secret := grant.CredentialSecret(r.request, h.app.Namespaces.Registration, r.out.Credential)
	err := h.addRecovery(ctx, r, secret)
	if errors.Is(err, recoveries.ErrPending) && h.waited(r.request) < noticeable {
		return h.postpone(r, recoveryDelay)
	}
	if err != nil {
		h.app.Log.Warn("credential handed out without recovery data; the agent reads it later from Secret fleet-recovery", "registration", r.key(), "error", err)
	}
	if r.out.Sealed {
		if err := grant.Seal(secret, r.out.Key, string(r.in.Account.UID)); err != nil {
			return fmt.Errorf("answering registration %s: %w", r.key(), err)
		}
	}
	if err := h.writeCredential(secret); err != nil {
		return fmt.Errorf("writing the credential of registration %s: %w", r.key(), err)
	}
	h.recordGranted(r)
	return nil
}

// mint requests the token of the credential and checks that it can be used. If it is too early, it postpones the
// request.
func (h *handler) mint(ctx context.Context, r *run) error {
	mint := r.out.Mint
	request := accounts.Mint
	if mint.Renewed {
		request = accounts.MintRenewed
	}
	token, err := request(ctx, h.app.Kube, mint.Namespace, mint.Account, mint.Lifetime)
	if errors.Is(err, accounts.ErrTokenPending) {
		return h.postpone(r, pendingDelay)
	}
	if err != nil {
		return err
	}
	work := "apis/" + fleet.SchemeGroupVersion.String() + "/namespaces/" + r.out.Credential.DeploymentNamespace + "/bundledeployments"
	err = h.prover.List(ctx, token, work)
	switch {
	case errors.Is(err, accounts.ErrNotInForce) && h.waited(r.request) > notInForceSoon:
		return h.postpone(r, notInForceLate)
	case errors.Is(err, accounts.ErrNotInForce):
		return h.postpone(r, notInForceDelay)
	case err != nil:
		return err
	}
	r.out.Credential.Token = token
	return nil
}

// deleteUnproven deletes a recovery request that proves nothing. It counts each, and reports the first for
// each reason and Cluster.
func (h *handler) deleteUnproven(r *run) error {
	cluster := grant.ClusterOf(r.in)
	about := r.request.Namespace
	if cluster != nil {
		about += "/" + cluster.Name
	}
	if !h.reportedBefore(about + ": " + r.out.Message) {
		h.app.Log.Warn("recovery request refused: its proof or ticket is not valid; further refusals for this Cluster are only counted in fleet_registrations_total{outcome=\"unproven\"}", "registration", r.key(), "cluster", about)
		if cluster != nil {
			h.app.Recorder.Event(cluster, corev1.EventTypeWarning, reasonRecoveryRefused, r.out.Message)
		}
	}
	h.app.Metrics.Registration(metrics.OutcomeUnproven)
	return h.deleteRequest(r.request)
}

// reportedBefore reports whether a refusal was reported, and remembers it.
func (h *handler) reportedBefore(refusal string) bool {
	_, before := h.unproven.Get(refusal)
	h.unproven.Add(refusal, true)
	return before
}

// recordRecovery records on the Cluster which pods have recovered it.
func (h *handler) recordRecovery(r *run) error {
	cluster := grant.ClusterOf(r.in)
	_, err := reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation.RecoveredBy, r.out.RecoveredBy)
	})
	if err != nil {
		return fmt.Errorf("recording the recovery of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

// reasonRecoveryRefused is the reason of the Event about a recovery request that was deleted.
const reasonRecoveryRefused = "RecoveryRefused"

// addRecovery adds what the agent of a signed request needs to return after a loss, if the hub has a key.
func (h *handler) addRecovery(ctx context.Context, r *run, secret *corev1.Secret) error {
	if r.out.Key == "" || h.app.Recoveries.Key().Public() == "" {
		return nil
	}
	account, err := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(r.request.Namespace, names.Recovery))
	if err != nil {
		return err
	}
	if !recoveries.IsAccount(account) {
		account = nil
	}
	data, err := h.app.Recoveries.Data(ctx, grant.ClusterOf(r.in), r.out.Key, account)
	if err == nil {
		grant.AddRecovery(secret, data)
	}
	return err
}

// postpone enqueues a request that has its rights but no credential yet. Its status says so if it waits for long.
func (h *handler) postpone(r *run, delay time.Duration) error {
	r.later = true
	h.app.ClusterRegistrations.EnqueueAfter(r.request.Namespace, r.request.Name, delay)
	if r.request.Status.Granted || h.waited(r.request) < noticeable {
		return nil
	}
	out := r.out
	out.Stage, out.Granted, out.Unreadable = grant.AwaitingRights, false, false
	_, err := h.setStatus(r.request, out)
	return err
}

// writeCredential creates the credential Secret, or updates it if its token does not work.
func (h *handler) writeCredential(secret *corev1.Secret) error {
	_, err := h.app.CredentialSecrets.Create(secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	live, err := h.app.CredentialSecrets.Get(secret.Namespace, secret.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if others := requestOf(live); len(others) > 0 && others[0] != requestOf(secret)[0] {
		return errAnswersAnother // the cache will soon show the same
	}
	live = live.DeepCopy()
	live.Data, live.Labels, live.Annotations = secret.Data, secret.Labels, secret.Annotations
	_, err = h.app.CredentialSecrets.Update(live)
	return err
}
