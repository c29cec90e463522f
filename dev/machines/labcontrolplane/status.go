package labcontrolplane

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/labconfig"
)

// available returns the condition of a control plane with a Machine, and the delay until the API server is asked again.
func available(in Input) (*metav1.Condition, time.Duration) {
	switch {
	case in.Server.Asked && in.Server.Err == nil:
		condition := &metav1.Condition{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: clusterv1.AvailableReason}
		if !labconfig.IsAvailable(in.ControlPlane.Spec.Version) {
			condition.Message = labconfig.VersionMessage("LabControlPlane "+in.ControlPlane.Name, in.ControlPlane.Spec.Version)
		}
		return condition, checkInterval
	case isInitialized(in.ControlPlane) && in.Server.Asked:
		return notAvailable(ReasonNotAnswering, "the API server of the control plane does not answer: "+in.Server.Err.Error()), lostInterval
	case isInitialized(in.ControlPlane):
		return nil, lostInterval
	default:
		return notAvailable(ReasonStarting, "the API server has not answered yet. To see the state of the machine, run: kubectl describe machine -n "+
			in.ControlPlane.Namespace+" "+MachineName(in.ControlPlane)), startInterval
	}
}

func notAvailable(reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: clusterv1.AvailableCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func isInitialized(controlPlane *api.LabControlPlane) bool {
	initialized := controlPlane.Status.Initialization.ControlPlaneInitialized
	return initialized != nil && *initialized
}

// setStatus writes what a decision reports into a status.
func setStatus(in Input, out Outcome, controlPlane *api.LabControlPlane) {
	status := &controlPlane.Status
	if out.Available != nil {
		condition := *out.Available
		condition.ObservedGeneration = controlPlane.Generation
		contract.SetCondition(&status.Conditions, in.Now, condition)
	}
	if in.Cluster != nil {
		status.Selector = selector(in)
	}
	setReplicas(in, status)
	if in.Server.Asked && in.Server.Err == nil {
		initialized := true
		status.Initialization.ControlPlaneInitialized = &initialized
	}
}

func setReplicas(in Input, status *api.LabControlPlaneStatus) {
	one := func(is bool) *int32 {
		var number int32
		if is {
			number = 1
		}
		return &number
	}
	status.Replicas = one(in.Machine != nil)
	status.ReadyReplicas = one(has(in.Machine, clusterv1.ReadyCondition))
	status.AvailableReplicas = one(has(in.Machine, clusterv1.AvailableCondition))
	status.UpToDateReplicas = one(in.Machine != nil && upToDate(in).Status == metav1.ConditionTrue)
	status.Version, status.Versions = "", nil
	if in.Machine != nil {
		status.Version = runningVersion(in)
		status.Versions = []clusterv1.StatusVersion{{Version: status.Version, Replicas: 1}}
	}
}

func has(machine *clusterv1.Machine, condition string) bool {
	return machine != nil && meta.IsStatusConditionTrue(machine.Status.Conditions, condition)
}

// upToDate returns the condition of the Machine that compares it with the LabControlPlane.
func upToDate(in Input) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineUpToDateReason}
	template := in.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.Name
	switch {
	case in.Machine.Spec.Version != version(in.ControlPlane):
		condition.Message = fmt.Sprintf("the Machine has version %s, the control plane wants %s", in.Machine.Spec.Version, version(in.ControlPlane))
	case in.LabMachine != nil && in.LabMachine.Annotations[clusterv1.TemplateClonedFromNameAnnotation] != template:
		condition.Message = fmt.Sprintf("the LabMachine was created from another LabMachineTemplate than %s", template)
	default:
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason
	condition.Message += ". It is not replaced, because the data of the cluster would be lost: create another Cluster"
	return condition
}

// setUpToDate writes the condition into the status of a Machine.
func setUpToDate(in Input, machine *clusterv1.Machine) {
	condition := upToDate(in)
	condition.ObservedGeneration = machine.Generation
	contract.SetCondition(&machine.Status.Conditions, in.Now, condition)
}
