package revocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/undecodable"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// followDelay is the time until the caches show the orders that a token has given to its Clusters.
const followDelay = time.Second

// Reasons of Events.
const (
	reasonCredentialRevoked = "CredentialRevoked"
	reasonKeyRevoked        = "KeyRevoked"
)

type handler struct{ app *hub.App }

// Register watches the orders on Clusters and ClusterRegistrationTokens. They also count on objects that cannot be decoded
// completely: the agent whose credential is to end may write such a status.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a}
	undecodable.Unguarded(a.Clusters).OnChange(hub.Lasting(ctx), "revocation", func(_ string, cluster *fleet.Cluster) (*fleet.Cluster, error) {
		return h.onCluster(cluster)
	})
	undecodable.Unguarded(a.ClusterRegistrationTokens).OnChange(hub.Lasting(ctx), "revoke-derived", func(_ string, token *fleet.ClusterRegistrationToken) (*fleet.ClusterRegistrationToken, error) {
		return token, h.onToken(token)
	})
	return nil
}

// onCluster carries out the orders on a Cluster.
func (h *handler) onCluster(cluster *fleet.Cluster) (*fleet.Cluster, error) {
	if cluster == nil || cluster.DeletionTimestamp != nil {
		return cluster, nil
	}
	out := revocation.Decide(cluster)
	if len(out.Done) == 0 {
		return cluster, nil
	}
	var err error
	if out.Block {
		if cluster, err = reconcile.Patch(h.app.Clusters, cluster, revocation.Block); err != nil {
			return cluster, fmt.Errorf("blocking the key of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
		}
	}
	if out.DeleteAccounts {
		if err := h.deleteAccounts(cluster); err != nil {
			return cluster, err
		}
	}
	cluster, err = reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		for record, order := range out.Done {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, record, order) // the Cluster may have lost its annotations since
		}
	})
	if err != nil {
		return cluster, fmt.Errorf("recording the revocation on Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.record(cluster, out)
	return cluster, nil
}

// deleteAccounts deletes the accounts of all registrations of a Cluster. The API server rejects their tokens from then
// on. The accounts are created again, with other UIDs.
func (h *handler) deleteAccounts(cluster *fleet.Cluster) error {
	r, requests := &reconcile.Reads{}, h.app.ClusterRegistrations.Cache()
	granted := reconcile.ByIndex(r, requests, hub.RequestsByCluster, cluster.Namespace+"/"+cluster.Name)
	ofClient := reconcile.ByIndex(r, requests, hub.RequestsByClientID, cluster.Namespace+"/"+cluster.Spec.ClientID)
	if r.Err != nil {
		return fmt.Errorf("listing the registrations of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, r.Err)
	}
	// The status names the Cluster only after the account was created and the agent could read its credential.
	unnamed := slices.DeleteFunc(ofClient, func(request *fleet.ClusterRegistration) bool { return request.Status.ClusterName != "" })
	var failures []error
	for _, request := range append(granted, unnamed...) {
		key := grant.RequestAccount(request, cluster)
		account, err := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(key.Namespace, key.Name))
		if err != nil || account == nil {
			failures = append(failures, err)
			continue
		}
		if err := reconcile.Delete(h.app.ServiceAccounts, account); err != nil {
			failures = append(failures, fmt.Errorf("deleting account %s: %w", key, err))
		}
	}
	return errors.Join(failures...)
}

// record logs a revocation and records it as an Event.
func (h *handler) record(cluster *fleet.Cluster, out revocation.Outcome) {
	name := cluster.Namespace + "/" + cluster.Name
	h.app.Log.Info("credential of an agent revoked", "cluster", name, "key", out.Block)
	if out.Block {
		h.app.Recorder.Eventf(cluster, corev1.EventTypeWarning, reasonKeyRevoked,
			"the agent's key is blocked and its credential is revoked: run on the cluster: kubectl delete secret -n kube-system fleet-agent-recovery-AGENT-NAMESPACE; then run on the hub: fleet repair %s -n %s, and for its request: fleet confirm-takeover %s REQUEST -n %s",
			cluster.Name, cluster.Namespace, cluster.Name, cluster.Namespace)
		return
	}
	h.app.Recorder.Eventf(cluster, corev1.EventTypeNormal, reasonCredentialRevoked,
		"the agent's credential is revoked: to let the agent register again, run `fleet repair %s -n %s`", cluster.Name, cluster.Namespace)
}

// onToken gives the order of a token to all Clusters that joined with it, and then deletes the token.
func (h *handler) onToken(token *fleet.ClusterRegistrationToken) error {
	if token == nil || token.DeletionTimestamp != nil || !revocation.IsDerived(token) {
		return nil
	}
	clusters, err := h.joinedWith(token)
	if err != nil {
		return fmt.Errorf("finding the Clusters of token %s/%s: %w", token.Namespace, token.Name, err)
	}
	ordered, err := h.order(clusters, revocation.OfToken(token))
	if err != nil {
		return err
	}
	if ordered { // look again: further Clusters may have joined
		h.app.ClusterRegistrationTokens.EnqueueAfter(token.Namespace, token.Name, followDelay)
		return nil
	}
	h.app.Log.Info("keys of a token's Clusters revoked", "token", token.Namespace+"/"+token.Name, "clusters", len(clusters))
	if err := reconcile.Delete(h.app.ClusterRegistrationTokens, token); err != nil {
		return fmt.Errorf("deleting token %s/%s: %w", token.Namespace, token.Name, err)
	}
	return nil
}

// order revokes the keys of Clusters and reports whether any was not revoked before.
func (h *handler) order(clusters []*fleet.Cluster, order string) (ordered bool, err error) {
	for _, cluster := range clusters {
		if cluster.Annotations[annotation.RevokeKey] == order || cluster.Annotations[annotation.KeyRevoked] == order {
			continue
		}
		ordered = true
		if _, err := reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation.RevokeKey, order)
		}); err != nil {
			return ordered, fmt.Errorf("revoking the key of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
		}
	}
	return ordered, nil
}

// joinedWith returns the Clusters that joined with a token.
func (h *handler) joinedWith(token *fleet.ClusterRegistrationToken) ([]*fleet.Cluster, error) {
	clusters, clusterErr := h.app.Clusters.Cache().List(token.Namespace, labels.Everything())
	requests, requestErr := h.app.ClusterRegistrations.Cache().List(token.Namespace, labels.Everything())
	if err := errors.Join(clusterErr, requestErr); err != nil {
		return nil, err
	}
	byCluster := map[string][]*fleet.ClusterRegistration{}
	for _, request := range requests {
		byCluster[request.Status.ClusterName] = append(byCluster[request.Status.ClusterName], request)
	}
	var found []*fleet.Cluster
	for _, cluster := range clusters {
		joined := revocation.JoinedWith(token, cluster, nil)
		for _, request := range byCluster[cluster.Name] {
			joined = joined || revocation.JoinedWith(token, cluster, request)
		}
		if joined && cluster.DeletionTimestamp == nil {
			found = append(found, cluster)
		}
	}
	return found, nil
}
