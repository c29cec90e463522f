package supervision

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AgentPatience is how long an agent that was deployed may take until it is heard of: time to be scheduled, pulled and
// registered.
const AgentPatience = 45 * time.Second

// What makes many agents fall silent at once is rarely the agents. They count as many from this number on, if they are
// more than half of those that were heard of.
const manyAgents = 4

// Reporting says whether the hub hears of a Cluster's agent.
type Reporting string

const (
	// ReportingUnexpected means that there is no agent to hear of: the Cluster is going or another manager's, or it is
	// the hub's own and its agent is disabled.
	ReportingUnexpected Reporting = "Unexpected"
	// ReportingAwaited means that no agent was heard of yet, and that it is not late.
	ReportingAwaited Reporting = "Awaited"
	// ReportingMissing means that an agent was deployed and should have been heard of by now.
	ReportingMissing Reporting = "Missing"
	// ReportingHeard means that the agent was heard of lately.
	ReportingHeard Reporting = "Heard"
	// ReportingSilent means that the agent was heard of once and has missed three check-in intervals.
	ReportingSilent Reporting = "Silent"
)

// ReportingInput is what the hub observed of an agent. All times are of the hub's own clock: what the agent's clock
// says in its heartbeats is only seen to change.
type ReportingInput struct {
	Now time.Time
	// Cluster is as it is now. Config is the hub's.
	Cluster *fleet.Cluster
	Config  config.Config
	// Since is when something was heard last: when a heartbeat changed LastSeen, when the agent was seen to be deployed,
	// or when this process began to observe.
	Since time.Time
	// NotBefore is when the agent may be called silent at the earliest; zero: whenever it is.
	NotBefore time.Time
	// Marked says that it was called missing or silent and that nothing was heard of it since.
	Marked bool
	// Adopted says that the agent has the hub's settings, because its own Bundle was applied.
	Adopted bool
	// Gaps are the times between heartbeats that were observed.
	Gaps Gaps
}

// ReportingOutcome is what the hub makes of it.
type ReportingOutcome struct {
	Stage Reporting
	// Late says that the agent was heard of and has missed two heartbeats, or more.
	Late bool
	// LookAgain is when the stage may change without anything being heard; zero: never.
	LookAgain time.Time
}

// JudgeReporting says whether an agent is heard of. It never compares the agent's clock with the hub's.
func JudgeReporting(in ReportingInput) ReportingOutcome {
	switch {
	case !AgentExpected(in.Cluster, in.Config.Bootstrap):
		return ReportingOutcome{Stage: ReportingUnexpected}
	case in.Cluster.Status.Agent.LastSeen.IsZero():
		return awaited(in)
	}
	interval := CheckinInterval(in)
	late, silent := in.Since.Add(2*interval), in.Since.Add(WithJitter(3*interval))
	if silent.Before(in.NotBefore) {
		silent = in.NotBefore
	}
	out := ReportingOutcome{Stage: ReportingHeard, Late: !in.Now.Before(late), LookAgain: silent}
	if in.Marked || !in.Now.Before(silent) {
		return ReportingOutcome{Stage: ReportingSilent, Late: true}
	}
	return out
}

// awaited judges an agent that was never heard of, or not since it was deployed anew.
func awaited(in ReportingInput) ReportingOutcome {
	until := in.Since.Add(AgentPatience)
	switch {
	case in.Marked:
		return ReportingOutcome{Stage: ReportingMissing}
	case !AgentDeployed(in.Cluster):
		return ReportingOutcome{Stage: ReportingAwaited} // it comes by itself, or the import says why it does not
	case !in.Now.Before(until):
		return ReportingOutcome{Stage: ReportingMissing}
	}
	return ReportingOutcome{Stage: ReportingAwaited, LookAgain: until}
}

// WithJitter is how long an interval of an agent may take: each is up to a tenth longer or shorter by chance.
func WithJitter(interval time.Duration) time.Duration { return interval + interval/10 }

// AgentExpected says whether a Cluster has or gets an agent.
func AgentExpected(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	disabled := bootstrap.LocalAgentDisabled && clusters.IsLocal(cluster, bootstrap)
	return !disabled && cluster.DeletionTimestamp == nil && cluster.Labels[fleet.LabelClusterManagement] == ""
}

// AgentDeployed says whether the hub has deployed a Cluster's agent.
func AgentDeployed(cluster *fleet.Cluster) bool {
	imported := fleet.GetCondition(cluster.Status.Conditions, fleet.ConditionImported)
	return cluster.Spec.KubeConfigSecret != "" && imported != nil && imported.Status == corev1.ConditionTrue
}

// MarkedNotReporting says whether a Cluster says of itself that its agent does not report. What was said of an agent that
// was not heard of at all counts no more once it was.
func MarkedNotReporting(cluster *fleet.Cluster) bool {
	said := fleet.GetCondition(cluster.Status.Conditions, fleet.ConditionAgentReporting)
	return said != nil && said.Reason == fleet.ReasonAgentNotReporting &&
		(said.Message != missingMessage || cluster.Status.Agent.LastSeen.IsZero())
}

// ManySilent says whether so many of the agents that were heard of are late at once that the reason is rather the hub,
// or what is before it: at least four, and more than half.
func ManySilent(late, heardOf int) bool { return late >= manyAgents && 2*late > heardOf }

// Messages of the condition AgentReporting. Constant: a silence that lasts is no change.
const (
	awaitedMessage  = "no agent was heard of yet"
	deployedMessage = "the agent is being deployed and was not heard of yet"
	missingMessage  = "the agent was deployed and is not heard of: look at its pods in the agent's namespace of that cluster, " +
		"at their Events and their log; they must reach the hub at its apiServerURL"
	// SilentMessage is that of the condition Ready, too.
	SilentMessage = "the agent has missed three check-in intervals: see whether its pods run on that cluster, and whether their log says that " +
		"they do not reach the hub; until it is back nothing is deployed there, and what is shown is what it reported last"
)

// ReportingCondition is the condition AgentReporting of a Cluster; nil where no agent is expected.
func ReportingCondition(stage Reporting, cluster *fleet.Cluster) *genericcondition.GenericCondition {
	condition := &genericcondition.GenericCondition{Type: fleet.ConditionAgentReporting, Status: corev1.ConditionFalse}
	switch stage {
	case ReportingHeard:
		condition.Status = corev1.ConditionTrue
	case ReportingAwaited:
		condition.Reason, condition.Message = fleet.ReasonAwaitingAgent, awaitedMessage
		if cluster.Spec.KubeConfigSecret != "" {
			condition.Message = deployedMessage
		}
	case ReportingMissing:
		condition.Reason, condition.Message = fleet.ReasonAgentNotReporting, missingMessage
	case ReportingSilent:
		condition.Reason, condition.Message = fleet.ReasonAgentNotReporting, SilentMessage
	default:
		return nil
	}
	return condition
}
