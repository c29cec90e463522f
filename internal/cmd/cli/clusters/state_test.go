package clusters

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func condition(kind string, status corev1.ConditionStatus, reason, message string) genericcondition.GenericCondition {
	return genericcondition.GenericCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

func status(seen bool, conditions ...genericcondition.GenericCondition) fleet.ClusterStatus {
	status := fleet.ClusterStatus{Conditions: conditions}
	if seen {
		status.Agent.LastSeen = clitest.Ago(time.Minute)
	}
	return status
}

func TestJudge(t *testing.T) {
	reports := condition("AgentReporting", "True", "", "")
	silent := condition("AgentReporting", "False", conditions.ReasonAgentNotReporting, supervision.SilentMessage)
	awaited := condition("AgentReporting", "False", conditions.ReasonAwaitingAgent, "no agent has reported yet")
	unreachable := condition("Imported", "False", conditions.ReasonDownstreamUnreachable, "no answer")
	tests := map[string]struct {
		status   fleet.ClusterStatus
		deleting bool
		want     Summary
	}{
		"new Cluster without status: waits":     {want: Summary{State: Waiting}},
		"no agent yet: waits":                   {status: status(false, awaited), want: Summary{Waiting, conditions.ReasonAwaitingAgent, "no agent has reported yet"}},
		"no agent yet, and a token is blocked":  {status: status(false, awaited, condition("Processed", "False", conditions.ReasonClientIDAmbiguous, "m")), want: Summary{Waiting, conditions.ReasonClientIDAmbiguous, "m"}},
		"kubeconfig does not work":              {status: status(false, awaited, unreachable), want: Summary{NotImported, conditions.ReasonDownstreamUnreachable, "no answer"}},
		"import is in progress: waits":          {status: status(false, awaited, condition("Imported", "False", "AwaitingToken", "")), want: Summary{Waiting, conditions.ReasonAwaitingAgent, "no agent has reported yet"}},
		"agent was deployed and never reported": {status: status(false, condition("AgentReporting", "False", conditions.ReasonAgentNotReporting, "m")), want: Summary{Silent, conditions.ReasonAgentNotReporting, "m"}},
		"agent no longer reports":               {status: status(true, condition("Ready", "False", conditions.ReasonAgentNotReporting, "m"), silent), want: Summary{Silent, conditions.ReasonAgentNotReporting, supervision.SilentMessage}},
		"silent, and the hub knows why":         {status: status(true, silent, unreachable), want: Summary{Silent, conditions.ReasonDownstreamUnreachable, "no answer"}},
		"Bundle is not ready: its state is the reason": {
			status: func() fleet.ClusterStatus {
				s := status(true, reports, condition("Ready", "False", "", "ErrApplied(1) [Bundle b]"))
				s.Summary.NonReadyResources = []fleet.NonReadyResource{{Name: "a", BundleState: fleet.NotReady}, {Name: "b", BundleState: fleet.ErrApplied}}
				return s
			}(),
			want: Summary{NotReady, "ErrApplied", "ErrApplied(1) [Bundle b]"},
		},
		"ready, with another trouble":             {status: status(true, condition("Ready", "True", "", ""), reports, condition("AddressKnown", "False", conditions.ReasonHubAddressChanged, "m")), want: Summary{Degraded, conditions.ReasonHubAddressChanged, "m"}},
		"ready, with an agent of Rancher Fleet":   {status: status(true, condition("Ready", "True", "", ""), condition("Imported", "False", conditions.ReasonAgentInherited, "m")), want: Summary{State: Ready}},
		"ready":                                   {status: status(true, condition("Ready", "True", "", ""), reports, condition("Imported", "True", "", "")), want: Summary{State: Ready}},
		"being deleted":                           {deleting: true, status: status(true, condition("Ready", "True", "", "")), want: Summary{State: Deleting}},
		"being deleted, which the server refuses": {deleting: true, status: status(true, condition("Processed", "False", conditions.ReasonError, "m")), want: Summary{Deleting, conditions.ReasonError, "m"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &fleet.Cluster{Status: test.status}
			if test.deleting {
				cluster.DeletionTimestamp = &metav1.Time{Time: clitest.Noon()}
			}
			if diff := cmp.Diff(test.want, Summarize(cluster)); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}
