package cluster

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// deleteLeftovers cleans up the namespace of a Cluster that is gone. In a namespace that is being deleted it removes the
// finalizers of BundleDeployments, which may have been created just before the deletion. It deletes a namespace that
// was left behind because a user removed the Cluster's finalizer.
func (h *handler) deleteLeftovers(cluster types.NamespacedName) error {
	name := names.ClusterNamespace(cluster.Namespace, cluster.Name)
	namespace, err := reconcile.Optional(h.app.AllNamespaces.Cache().Get(name))
	if err != nil || namespace == nil {
		return err
	}
	in, err := h.gatherLeft(input{namespace: namespace}, cluster)
	if err != nil {
		return err
	}
	if namespace.DeletionTimestamp != nil {
		return h.drain(waiting(in.deployments))
	}
	if !wasMadeFor(namespace, cluster) {
		return nil // its creator still uses it
	}
	// Do not rely on the cache before a deletion: the Cluster may exist although the cache does not have it yet.
	found, err := reconcile.Optional(h.app.Clusters.Get(cluster.Namespace, cluster.Name, metav1.GetOptions{}))
	if err != nil || found != nil {
		return err
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
