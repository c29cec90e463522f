package cluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// leaveNothing looks after the namespace of a Cluster that is gone: it helps one that is going, in which a
// BundleDeployment may have appeared in the moment it was told to, and tells one to go that was left behind because
// somebody took the Cluster's finalizer off.
func (h *handler) leaveNothing(cluster types.NamespacedName) error {
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
		return nil // it is used by whoever made it
	}
	// Deleting is final, so the cache is not enough: a Cluster may be there that it has not seen yet.
	found, err := reconcile.Optional(h.app.Clusters.Get(cluster.Namespace, cluster.Name, metav1.GetOptions{}))
	if err != nil || found != nil {
		return err
	}
	h.app.Log.Info("cluster gone without its namespace, which is deleted", "cluster", cluster.String(), "namespace", name)
	if err := h.revoke(in.accounts); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return h.deleteNamespace(namespace)
}
