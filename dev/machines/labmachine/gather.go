package labmachine

import (
	"context"
	"errors"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/labcluster"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// gather collects what the decision depends on. Problems of other processes are part of it, not errors.
func (h *handler) gather(labMachine *api.LabMachine) (Input, error) {
	in := Input{LabMachine: labMachine, Socket: h.Socket, Now: h.Clock()}
	var err error
	if in.Machine, err = contract.OwnerOf(labMachine, "Machine", h.Machines.Cache().Get); err != nil || in.Machine == nil {
		return in, err
	}
	if in.Cluster, err = reconcile.Optional(h.Clusters.Cache().Get(labMachine.Namespace, in.Machine.Spec.ClusterName)); err != nil {
		return in, err
	}
	if !IsConcerned(labMachine, in.Cluster, in.Machine) {
		return in, nil
	}
	if _, in.EndpointMissing, err = h.endpointOf(in.Cluster, in.Machine); err != nil {
		return in, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	switch status, err := h.Host.Machine(ctx, MachineID(labMachine)); {
	case errors.Is(err, host.ErrNotFound):
	case err != nil:
		in.HostErr = err
	default:
		in.AtHost = &status
	}
	if ExpectsNode(labMachine, in.AtHost) {
		in.Node, in.NodeErr = h.nodeOf(h.ctx, in.Cluster, in.Machine)
	}
	return in, nil
}

// endpointOf returns the ID of the endpoint at which the Machine serves, or "" if it serves no control plane or the endpoint
// is not at the machine host. missing means that it is at the machine host, but not known.
func (h *handler) endpointOf(cluster *clusterv1.Cluster, machine *clusterv1.Machine) (id string, missing bool, err error) {
	ref := cluster.Spec.InfrastructureRef
	if _, controlPlane := machine.Labels[clusterv1.MachineControlPlaneLabel]; !controlPlane ||
		ref.APIGroup != api.GroupVersion().Group || ref.Kind != "LabCluster" {
		return "", false, nil
	}
	labCluster, err := reconcile.Optional(h.LabClusters.Cache().Get(cluster.Namespace, ref.Name))
	if err != nil || labCluster == nil {
		return "", labCluster == nil, err
	}
	return labcluster.EndpointID(labCluster), false, nil
}
