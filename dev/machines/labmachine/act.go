package labmachine

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// create creates the machine, after the finalizer that lets the LabMachine outlive it.
func (h *handler) create(in Input, out Outcome) error {
	current, err := contract.Keep(h.LabMachines, in.LabMachine, api.MachineFinalizer)
	if err != nil || current == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	data, err := h.bootstrapData(ctx, in.Machine)
	if err != nil {
		return h.reportError(current, clusterv1.WaitingForBootstrapDataReason, err)
	}
	endpoint, _, err := h.endpointOf(in.Cluster, in.Machine)
	if err != nil {
		return err
	}
	status, err := h.Host.CreateMachine(ctx, MachineID(current), host.Machine{
		Endpoint: endpoint, ExtraPorts: api.MachineExtraPorts, BootstrapData: data,
	})
	if err != nil {
		return h.reportError(current, host.Reason(err), err)
	}
	h.Log.Info("machine created", "namespace", current.Namespace, "labmachine", current.Name, "port", status.Port)
	_, err = h.report(current, out.Report)
	return err
}

// retry deletes a failed machine. The next decision finds none and creates it.
func (h *handler) retry(in Input, out Outcome) error {
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	if err := h.Host.DeleteMachine(ctx, MachineID(in.LabMachine)); err != nil {
		return h.reportError(in.LabMachine, host.Reason(err), err)
	}
	h.Log.Info("failed machine deleted", "namespace", in.LabMachine.Namespace, "labmachine", in.LabMachine.Name)
	_, err := h.report(in.LabMachine, out.Report)
	return err
}

// provision sets the provider ID on the Node, then on the LabMachine, and reports that it is provisioned.
func (h *handler) provision(in Input, out Outcome) error {
	if out.NodePatch != nil {
		ctx, cancel := context.WithTimeout(h.ctx, nodeTimeout)
		defer cancel()
		if err := h.Nodes.PatchNode(ctx, in.Cluster, in.Machine.Name, out.NodePatch); err != nil {
			return h.reportError(in.LabMachine, ReasonWaitingForNode, err)
		}
	}
	current, err := reconcile.Patch(h.LabMachines, in.LabMachine, func(m *api.LabMachine) { m.Spec.ProviderID = ProviderID(m) })
	if err != nil {
		return err
	}
	_, err = reconcile.WriteStatus(h.LabMachines, current, func(m *api.LabMachine) {
		provisioned := true
		m.Status.Initialization.Provisioned = &provisioned
		out.Report.Apply(m, h.Clock())
	})
	if err == nil {
		h.Log.Info("machine provisioned", "namespace", current.Namespace, "labmachine", current.Name)
	}
	return err
}

// delete deletes the machine and removes the finalizer.
func (h *handler) delete(in Input, out Outcome) error {
	current, err := h.report(in.LabMachine, out.Report)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	if err := h.Host.DeleteMachine(ctx, MachineID(current)); err != nil {
		return h.reportError(current, host.Reason(err), err)
	}
	_, err = reconcile.Patch(h.LabMachines, current, func(m *api.LabMachine) {
		m.Finalizers = slices.DeleteFunc(m.Finalizers, func(f string) bool { return f == api.MachineFinalizer })
	})
	if err == nil {
		h.Log.Info("machine deleted", "namespace", current.Namespace, "labmachine", current.Name)
	}
	return err
}

// reportError reports a problem and returns it, so that the step is repeated after a growing delay.
func (h *handler) reportError(labMachine *api.LabMachine, reason string, cause error) error {
	if _, err := h.report(labMachine, notReady(reason, cause.Error())); err != nil {
		return err
	}
	return cause
}
