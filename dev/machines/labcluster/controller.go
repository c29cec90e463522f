package labcluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/manager"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// requestTimeout limits each request to the machine host.
const requestTimeout = 10 * time.Second

// Host is the part of the machine host's client that the controller needs.
type Host interface {
	ReserveEndpoint(ctx context.Context, id string) (host string, port int, err error)
	FreeEndpoint(ctx context.Context, id string) error
}

type handler struct {
	*manager.Context
	ctx  context.Context //nolint:containedctx // lasso's handlers get no context
	host Host
}

// Register adds the controller of LabClusters. It works until ctx ends.
func Register(ctx context.Context, m *manager.Context, machineHost Host) error {
	h := &handler{Context: m, ctx: ctx, host: machineHost}
	m.LabClusters.OnChange(context.WithoutCancel(ctx), "labcluster", h.reconcile)
	return reconcile.Watch(m.Clusters.Informer(), labClusterOf, reconcile.Enqueue(m.LabClusters))
}

// labClusterOf returns the LabCluster that a Cluster refers to.
func labClusterOf(cluster *clusterv1.Cluster) []types.NamespacedName {
	ref := cluster.Spec.InfrastructureRef
	if ref.APIGroup != api.GroupVersion().Group || ref.Kind != "LabCluster" {
		return nil
	}
	return []types.NamespacedName{{Namespace: cluster.Namespace, Name: ref.Name}}
}

func (h *handler) reconcile(_ string, labCluster *api.LabCluster) (*api.LabCluster, error) {
	if labCluster == nil {
		return nil, nil
	}
	cluster, err := contract.OwnerOf(labCluster, "Cluster", h.Clusters.Cache().Get)
	if err != nil {
		return nil, err
	}
	switch Decide(labCluster, cluster) {
	case Reserving:
		err = h.reserve(labCluster)
	case Freeing:
		err = h.free(labCluster)
	}
	if err != nil {
		return nil, fmt.Errorf("LabCluster %s/%s: %w", labCluster.Namespace, labCluster.Name, err)
	}
	return labCluster, nil
}

// reserve reserves the endpoint. The finalizer is written first, the status last.
func (h *handler) reserve(labCluster *api.LabCluster) error {
	current, err := contract.Keep(h.LabClusters, labCluster, api.EndpointFinalizer)
	if err != nil || current == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	address, port, err := h.host.ReserveEndpoint(ctx, EndpointID(current))
	if err != nil {
		return h.report(current, host.Reason(err), err)
	}
	reserved := clusterv1.APIEndpoint{Host: address, Port: int32(port)} //nolint:gosec // a port
	if err := CheckEndpoint(current, reserved); err != nil {
		return h.report(current, ReasonEndpointMismatch, err)
	}
	current, err = reconcile.Patch(h.LabClusters, current, func(c *api.LabCluster) { c.Spec.ControlPlaneEndpoint = reserved })
	if err != nil {
		return err
	}
	_, err = reconcile.WriteStatus(h.LabClusters, current, func(c *api.LabCluster) { setProvisioned(c, h.Clock()) })
	if err == nil {
		h.Log.Info("endpoint reserved", "namespace", current.Namespace, "labcluster", current.Name, "port", port)
	}
	return err
}

// free frees the endpoint and removes the finalizer. While a machine has the endpoint it fails and is repeated.
func (h *handler) free(labCluster *api.LabCluster) error {
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	if err := h.host.FreeEndpoint(ctx, EndpointID(labCluster)); err != nil {
		return h.report(labCluster, ReasonDeleting, fmt.Errorf("freeing the endpoint: %w", err))
	}
	_, err := reconcile.Patch(h.LabClusters, labCluster, func(c *api.LabCluster) {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == api.EndpointFinalizer })
	})
	return err
}

// report writes the condition Ready and returns cause, so that the LabCluster is reconciled again.
func (h *handler) report(labCluster *api.LabCluster, reason string, cause error) error {
	_, err := reconcile.WriteStatus(h.LabClusters, labCluster, func(c *api.LabCluster) {
		setReady(c, h.Clock(), metav1.ConditionFalse, reason, cause.Error())
	})
	if err != nil {
		return err
	}
	return cause
}
