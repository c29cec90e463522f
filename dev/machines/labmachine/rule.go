package labmachine

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/node"
)

// Stage is what happens to a LabMachine.
type Stage string

// The stages.
const (
	// Skipping writes nothing.
	Skipping Stage = "Skipping"
	// Reporting writes the status only.
	Reporting Stage = "Reporting"
	// Creating creates the machine.
	Creating Stage = "Creating"
	// Retrying deletes a machine that has failed, so that it is created again.
	Retrying Stage = "Retrying"
	// Provisioning sets the provider ID on the Node and on the LabMachine, and reports that it is provisioned.
	Provisioning Stage = "Provisioning"
	// Deleting deletes the machine and removes the finalizer.
	Deleting Stage = "Deleting"
)

// Input is what a decision depends on.
type Input struct {
	LabMachine *api.LabMachine
	// Machine and Cluster own the LabMachine. They are nil if they are not known.
	Machine *clusterv1.Machine
	Cluster *clusterv1.Cluster
	// EndpointMissing means that the machine serves a control plane, but its endpoint is not known.
	EndpointMissing bool
	// AtHost is the status at the machine host, or nil if there is no such machine. HostErr is the error of asking.
	AtHost  *host.Status
	HostErr error
	// Node is the Machine's Node, or nil if there is none. NodeErr is the error of asking. Ask only if ExpectsNode.
	Node    *corev1.Node
	NodeErr error
	// Socket is the socket of the machine host, for messages.
	Socket string
	Now    time.Time
}

// Outcome is what to do. Report and After apply at each stage except Skipping.
type Outcome struct {
	Stage Stage
	// NodePatch is the merge patch of the Node when Provisioning, or nil if it needs none.
	NodePatch []byte
	Report    Report
	// After is the delay until the next decision. Zero means that it depends on an event.
	After time.Duration
	// Err is a problem to report and to repeat with a growing delay.
	Err error
}

// MachineID returns the ID of a LabMachine's machine at the machine host.
func MachineID(labMachine *api.LabMachine) string { return string(labMachine.UID) }

// ProviderID returns the provider ID of a LabMachine's Node.
func ProviderID(labMachine *api.LabMachine) string { return "lab:///" + MachineID(labMachine) }

// IsConcerned reports whether the machine host has to be asked. It is not asked about objects that stay untouched.
func IsConcerned(labMachine *api.LabMachine, cluster *clusterv1.Cluster, machine *clusterv1.Machine) bool {
	return !contract.IsPaused(cluster, labMachine) && labMachine.DeletionTimestamp == nil && cluster != nil && machine != nil
}

// ExpectsNode reports whether the Node has to be asked for: the machine runs, is not provisioned yet, and starts a service
// that registers a Node.
func ExpectsNode(labMachine *api.LabMachine, status *host.Status) bool {
	return status != nil && status.State == host.Running && !isProvisioned(labMachine) && hasNode(status)
}

func hasNode(status *host.Status) bool {
	return slices.ContainsFunc(status.Services, func(s host.Service) bool { return s.Name == api.NodeService })
}

func isProvisioned(labMachine *api.LabMachine) bool {
	return labMachine.Status.Initialization.Provisioned != nil && *labMachine.Status.Initialization.Provisioned
}

// Decide returns the next step.
func Decide(in Input) Outcome {
	deleting := in.LabMachine.DeletionTimestamp != nil
	switch {
	case contract.IsPaused(in.Cluster, in.LabMachine):
		return Outcome{Stage: Skipping}
	case deleting && slices.Contains(in.LabMachine.Finalizers, api.MachineFinalizer):
		return Outcome{Stage: Deleting, Report: notReady(clusterv1.DeletingReason, "")}
	case deleting, in.Machine == nil, in.Cluster == nil:
		return Outcome{Stage: Skipping}
	case !infrastructureProvisioned(in.Cluster):
		return reporting(notReady(clusterv1.WaitingForClusterInfrastructureReadyReason, "the infrastructure of Cluster "+in.Cluster.Name+" is not provisioned yet"))
	case in.Machine.Spec.Bootstrap.DataSecretName == nil:
		return reporting(notReady(clusterv1.WaitingForBootstrapDataReason, "Machine "+in.Machine.Name+" has no bootstrap data yet"))
	case in.HostErr != nil:
		return Outcome{Stage: Reporting, Report: notReady(host.Reason(in.HostErr), in.HostErr.Error()), Err: in.HostErr}
	case in.AtHost == nil:
		return decideMissing(in)
	default:
		return decideExisting(in)
	}
}

func infrastructureProvisioned(cluster *clusterv1.Cluster) bool {
	provisioned := cluster.Status.Initialization.InfrastructureProvisioned
	return provisioned != nil && *provisioned
}

// decideMissing decides about a LabMachine without machine.
func decideMissing(in Input) Outcome {
	switch {
	case isProvisioned(in.LabMachine), in.LabMachine.Spec.ProviderID != "":
		return reporting(notReady(ReasonMachineLost, "the machine host has no machine "+MachineID(in.LabMachine)+
			" any more: delete Machine "+in.Machine.Name+", so that its owner replaces it"))
	case in.EndpointMissing:
		return reporting(notReady(ReasonWaitingForEndpoint, "the LabCluster of Cluster "+in.Cluster.Name+" does not exist"))
	default:
		return Outcome{Stage: Creating, Report: bootstrapping(in), After: pollMin}
	}
}

// decideExisting decides by the state of the machine.
func decideExisting(in Input) Outcome {
	switch in.AtHost.State {
	case host.Running:
		return decideRunning(in)
	case host.Failed:
		return decideFailed(in)
	case host.Stopped:
		report := notReady(ReasonStopped, in.AtHost.Cause)
		report.Bootstrap = succeeded()
		return Outcome{Stage: Reporting, Report: report, After: pollMax}
	default:
		return decideBootstrapping(in)
	}
}

// decideBootstrapping waits for the bootstrapping. After the timeout it counts as failed.
func decideBootstrapping(in Input) Outcome {
	known := bootstrapCondition(in)
	if known != nil && known.Reason == ReasonBootstrapping && in.Now.Sub(known.LastTransitionTime.Time) >= bootstrapTimeout {
		report := bootstrapFailed(in, fmt.Sprintf("bootstrapping took longer than %s", bootstrapTimeout))
		return Outcome{Stage: Retrying, Report: report, After: pollMin}
	}
	return Outcome{Stage: Reporting, Report: bootstrapping(in), After: poll(in)}
}

// decideFailed reports the failure, and retries after a delay.
func decideFailed(in Input) Outcome {
	report := bootstrapFailed(in, cause(in.AtHost))
	known := bootstrapCondition(in)
	if known == nil || known.Reason != ReasonBootstrapFailed {
		return Outcome{Stage: Reporting, Report: report, After: retryDelay(in.LabMachine.Status.Attempts + 1)}
	}
	if wait := known.LastTransitionTime.Add(retryDelay(in.LabMachine.Status.Attempts)).Sub(in.Now); wait > 0 {
		return Outcome{Stage: Reporting, Report: report, After: wait}
	}
	return Outcome{Stage: Retrying, Report: retrying(in), After: pollMin}
}

// decideRunning waits for the Node, if there will be one, and provisions the machine.
func decideRunning(in Input) Outcome {
	report := Report{Ready: ready(), Bootstrap: succeeded(), Addresses: addresses(in.AtHost)}
	if isProvisioned(in.LabMachine) {
		return Outcome{Stage: Reporting, Report: report, After: pollMax}
	}
	if hasNode(in.AtHost) {
		patch, reason, err := initializeNode(in)
		if err != nil {
			report.Ready = notReady(reason, err.Error()).Ready
			return Outcome{Stage: Reporting, Report: report, After: poll(in)}
		}
		return Outcome{Stage: Provisioning, NodePatch: patch, Report: report, After: pollMax}
	}
	return Outcome{Stage: Provisioning, Report: report, After: pollMax}
}

// initializeNode returns the patch of the Node, or the reason why there is none.
func initializeNode(in Input) (patch []byte, reason string, err error) {
	switch {
	case in.NodeErr != nil:
		return nil, ReasonWaitingForNode, in.NodeErr
	case in.Node == nil:
		return nil, ReasonWaitingForNode, fmt.Errorf("Node %s is not registered yet", in.Machine.Name)
	}
	patch, err = node.Initialize(in.Node, ProviderID(in.LabMachine))
	return patch, ReasonNodeConflict, err
}

func reporting(report Report) Outcome { return Outcome{Stage: Reporting, Report: report} }
