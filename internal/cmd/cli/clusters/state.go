package clusters

import (
	"slices"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/rules/state"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// State is the state of a Cluster, in one word. The words are stable.
type State string

const (
	// Ready means that the agent reports, and that everything deployed is ready.
	Ready State = "Ready"
	// NotReady means that the agent reports, and that a Bundle is not ready.
	NotReady State = "NotReady"
	// Degraded means that the agent reports, and that a condition other than Ready needs attention.
	Degraded State = "Degraded"
	// Waiting means that no agent has reported yet.
	Waiting State = "Waiting"
	// NotImported means that the hub cannot install the agent.
	NotImported State = "NotImported"
	// Silent means that the agent no longer reports, or that a deployed agent has never reported.
	Silent State = "Silent"
	// Deleting means that the Cluster is being deleted.
	Deleting State = "Deleting"
)

// States returns all states, the best first.
func States() []State {
	return []State{Ready, NotReady, Degraded, Waiting, NotImported, Silent, Deleting}
}

// Summary is the state of a Cluster, with the reason and message of the condition that causes it.
type Summary struct {
	State   State
	Reason  string
	Message string
}

// Summarize returns the state of a Cluster from its status. Problems that keep the agent from reporting come first, because
// the rest of the status is old while it does not report.
func Summarize(cluster *fleet.Cluster) Summary {
	list := cluster.Status.Conditions
	never := cluster.Status.Agent.LastSeen.IsZero()
	imported := trouble(list, conditions.Imported)
	reporting := conditions.Get(list, conditions.AgentReporting)
	ready := conditions.Get(list, conditions.Ready)
	switch {
	case cluster.DeletionTimestamp != nil:
		return because(Deleting, trouble(list, conditions.Processed))
	case never && imported != nil:
		return because(NotImported, imported)
	case supervision.MarkedNotReporting(cluster):
		return because(Silent, imported, reporting)
	case never:
		return because(Waiting, trouble(list, ""), reporting)
	case ready != nil && ready.Status == corev1.ConditionFalse:
		summary := because(NotReady, ready)
		if summary.Reason == "" {
			summary.Reason = state.WorstState(cluster.Status.Summary)
		}
		return summary
	}
	if found := trouble(list, ""); found != nil {
		return because(Degraded, found)
	}
	return Summary{State: Ready}
}

// trouble returns the condition of a type if it needs attention, or nil. An empty type means the first one that does.
func trouble(list []genericcondition.GenericCondition, conditionType string) *genericcondition.GenericCondition {
	i := slices.IndexFunc(list, func(c genericcondition.GenericCondition) bool {
		return (conditionType == "" || c.Type == conditionType) && conditions.IsTrouble(c)
	})
	if i < 0 {
		return nil
	}
	return &list[i]
}

// because returns a summary with the first condition that is not nil.
func because(of State, causes ...*genericcondition.GenericCondition) Summary {
	for _, cause := range causes {
		if cause != nil {
			return Summary{State: of, Reason: cause.Reason, Message: cause.Message}
		}
	}
	return Summary{State: of}
}
