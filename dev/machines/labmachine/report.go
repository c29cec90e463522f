package labmachine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/host"
)

// Reasons of the conditions Ready and BootstrapSucceeded, beside those of Cluster API and of package host.
const (
	ReasonWaitingForEndpoint = "WaitingForEndpoint"
	ReasonBootstrapping      = "Bootstrapping"
	ReasonBootstrapFailed    = "BootstrapFailed"
	ReasonBootstrapSucceeded = "BootstrapSucceeded"
	ReasonWaitingForNode     = "WaitingForNode"
	ReasonNodeConflict       = "NodeConflict"
	ReasonStopped            = "Stopped"
	ReasonMachineLost        = "MachineLost"
)

// Report is what a status has to say. Conditions that are nil, and no addresses, stay as they are.
type Report struct {
	Ready, Bootstrap *metav1.Condition
	Addresses        []clusterv1.MachineAddress
}

// Apply writes the report to a LabMachine's status.
func (r Report) Apply(labMachine *api.LabMachine, now time.Time) {
	status := &labMachine.Status
	if len(r.Addresses) > 0 {
		status.Addresses = r.Addresses
	}
	if r.Bootstrap != nil && r.Bootstrap.Reason == ReasonBootstrapFailed {
		known := meta.FindStatusCondition(status.Conditions, api.ConditionBootstrapSucceeded)
		if known == nil || known.Reason != ReasonBootstrapFailed {
			status.Attempts++
		}
	}
	for _, condition := range []*metav1.Condition{r.Ready, r.Bootstrap} {
		if condition != nil {
			set := *condition
			set.ObservedGeneration = labMachine.Generation
			contract.SetCondition(&status.Conditions, now, set)
		}
	}
}

func ready() *metav1.Condition {
	return &metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason}
}

func notReady(reason, message string) Report {
	return Report{Ready: &metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}

func succeeded() *metav1.Condition {
	return &metav1.Condition{Type: api.ConditionBootstrapSucceeded, Status: metav1.ConditionTrue, Reason: ReasonBootstrapSucceeded}
}

// bootstrapping reports a machine that executes its bootstrap data, or waits for that.
func bootstrapping(in Input) Report {
	var message string
	report := notReady(ReasonBootstrapping, "")
	if in.AtHost != nil {
		message, report.Addresses = in.AtHost.Cause, addresses(in.AtHost)
	}
	report.Ready.Message = message
	report.Bootstrap = &metav1.Condition{Type: api.ConditionBootstrapSucceeded, Status: metav1.ConditionUnknown, Reason: ReasonBootstrapping, Message: message}
	return report
}

// retrying is bootstrapping without the cause of the last failure.
func retrying(in Input) Report {
	in.AtHost = nil
	return bootstrapping(in)
}

// bootstrapFailed reports the cause and how to see the output, which may contain secrets.
func bootstrapFailed(in Input, cause string) Report {
	message := fmt.Sprintf("%s. Bootstrapping is repeated with the current bootstrap data. To see the output, run: curl --unix-socket %s http://machine-host/machines/%s/log",
		cause, in.Socket, MachineID(in.LabMachine))
	report := notReady(ReasonBootstrapFailed, message)
	report.Bootstrap = &metav1.Condition{Type: api.ConditionBootstrapSucceeded, Status: metav1.ConditionFalse, Reason: ReasonBootstrapFailed, Message: message}
	return report
}

// cause describes why bootstrapping has failed.
func cause(status *host.Status) string {
	text := status.Cause
	if text == "" {
		text = "bootstrapping failed"
	}
	switch {
	case status.Line == 0:
		return text
	case status.Command == 0:
		return fmt.Sprintf("line %d of the bootstrap data: %s", status.Line, text)
	default:
		return fmt.Sprintf("line %d of the bootstrap data, command %d: %s", status.Line, status.Command, text)
	}
}

func addresses(status *host.Status) []clusterv1.MachineAddress {
	if status.Address == "" {
		return nil
	}
	return []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: status.Address}}
}
