package cluster

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// deleteLeftovers cleans up the namespace of a Cluster that is gone. In a namespace that is being deleted it removes the
// finalizers of BundleDeployments, which may have been created just before the deletion. It deletes a namespace that
// was left behind because a user removed the Cluster's finalizer. In both cases it blocks the tickets first: without the
// namespace, nothing shows that there was a Cluster.
func (h *handler) deleteLeftovers(cluster types.NamespacedName) error {
	name := names.ClusterNamespace(cluster.Namespace, cluster.Name)
	namespace, err := reconcile.Optional(h.app.AllNamespaces.Cache().Get(name))
	if namespace == nil {
		h.blocked.Delete(cluster)
	}
	if err != nil || namespace == nil {
		return err
	}
	in, err := h.gatherLeft(input{namespace: namespace}, cluster)
	if err != nil {
		return err
	}
	gone, err := h.isGone(namespace, cluster)
	if err != nil {
		return err
	}
	if namespace.DeletionTimestamp != nil {
		if gone {
			if err := h.blockSince(cluster, *namespace.DeletionTimestamp, time.Time{}); err != nil {
				return err
			}
			h.blocked.Store(cluster, namespace.UID)
		}
		return h.drain(waiting(in.deployments))
	}
	if !gone {
		return nil // its creator still uses it
	}
	h.app.Log.Info("cluster gone without its namespace, which is deleted", "cluster", cluster.String(), "namespace", name)
	if err := h.revoke(in.accounts, in.rights); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	if err := h.blockTickets(cluster, time.Time{}); err != nil {
		return err
	}
	return h.deleteNamespace(namespace)
}

// isGone reports whether a namespace was made for a Cluster that does not exist, and whose tickets may still be valid.
func (h *handler) isGone(namespace *corev1.Namespace, cluster types.NamespacedName) (bool, error) {
	undeleted := *namespace // its marks also count while it is being deleted
	undeleted.DeletionTimestamp = nil
	if done, _ := h.blocked.Load(cluster); done == namespace.UID || !wasMadeFor(&undeleted, cluster) {
		return false, nil
	}
	// Do not rely on the cache before a deletion: the Cluster may exist although the cache does not have it yet.
	found, err := reconcile.Optional(h.app.Clusters.Get(cluster.Namespace, cluster.Name, metav1.GetOptions{}))
	return err == nil && found == nil, err
}

// blockSince calls blockTickets, unless the tickets that were signed before the deletion began are blocked already.
func (h *handler) blockSince(cluster types.NamespacedName, deletion metav1.Time, latest time.Time) error {
	blocked, err := h.app.Recoveries.IsBlocked(h.lasting, identity.Ticket{Workspace: cluster.Namespace, Cluster: cluster.Name, Time: deletion.Time})
	if err != nil || blocked {
		return err
	}
	return h.blockTickets(cluster, latest)
}

// blockTickets makes the tickets of a deleted Cluster invalid, so that its agent does not create it again. latest is the time
// of the last ticket, or zero if it is unknown.
func (h *handler) blockTickets(cluster types.NamespacedName, latest time.Time) error {
	if h.app.IsDeletingNamespace(cluster.Namespace) {
		if err := h.app.Recoveries.BlockAll(h.lasting, cluster.Namespace); err != nil || !latest.After(h.app.Clock()) {
			return err
		}
	}
	return h.app.Recoveries.Block(h.lasting, cluster.Namespace, cluster.Name, latest)
}
