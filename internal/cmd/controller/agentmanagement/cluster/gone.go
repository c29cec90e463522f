package cluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// leaveNothing cleans up the namespace of a Cluster that is gone. In a namespace that is being deleted it removes the
// finalizers of BundleDeployments, which may have been created just before the deletion. It deletes a namespace that
// was left behind because a user removed the Cluster's finalizer.
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
		return nil // its creator still uses it
	}
	// Do not rely on the cache before a deletion: the Cluster may exist although the cache does not have it yet.
	found, err := reconcile.Optional(h.app.Clusters.Get(cluster.Namespace, cluster.Name, metav1.GetOptions{}))
	if err != nil || found != nil {
		return err
	}
	h.app.Log.Info("cluster gone without its namespace, which is deleted", "cluster", cluster.String(), "namespace", name)
	if err := h.revoke(in.accounts); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	if err := h.blockTicketsOf(cluster, name); err != nil {
		return err
	}
	return h.deleteNamespace(namespace)
}

// blockTickets makes the tickets of a deleted Cluster invalid, so that its agent does not create it again.
func (h *handler) blockTickets(cluster *fleet.Cluster) error {
	if h.app.Leaves(cluster.Namespace) {
		return nil // the recovery account of the workspace is deleted as well
	}
	for _, annotation := range []string{fleet.AnnotationAgentKey, fleet.AnnotationBlockedKey} {
		if key := cluster.Annotations[annotation]; key != "" && key != revocation.NoKey {
			if err := h.app.Recoveries.Block(h.lasting, cluster.Namespace, identity.Thumbprint(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// blockTicketsOf is blockTickets for a Cluster that is gone. Only the ticket in its namespace shows its key.
func (h *handler) blockTicketsOf(cluster types.NamespacedName, namespace string) error {
	secret, err := reconcile.Optional(h.app.RecoverySecrets.Cache().Get(namespace, names.Recovery))
	if err != nil || secret == nil {
		return err
	}
	data, err := protocol.ParseRecovery(secret.Data)
	if err != nil {
		return nil //nolint:nilerr // no ticket
	}
	ticket, err := identity.VerifyTicket(h.app.Recoveries.Key().Public(), data.Ticket)
	if err != nil {
		return nil //nolint:nilerr // not a ticket that counts
	}
	return h.app.Recoveries.Block(h.lasting, cluster.Namespace, ticket.Key)
}
