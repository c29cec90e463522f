package supervision

import (
	"slices"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// AgentPatience is how long a deployed agent may take until its first heartbeat. It has to be scheduled, pulled and
// registered in this time.
const AgentPatience = 45 * time.Second

// Reporting is the hub's judgement of a Cluster's heartbeats.
type Reporting string

const (
	// ReportingUnexpected means that no agent is expected: the Cluster is being deleted, it belongs to another
	// manager, or it is the hub's own cluster and its agent is disabled.
	ReportingUnexpected Reporting = "Unexpected"
	// ReportingAwaited means that no agent has reported yet, and that it is not late.
	ReportingAwaited Reporting = "Awaited"
	// ReportingMissing means that an agent was deployed and has not reported in time.
	ReportingMissing Reporting = "Missing"
	// ReportingHeard means that the agent reports.
	ReportingHeard Reporting = "Heard"
	// ReportingSilent means that the agent has reported before and has missed three check-in intervals.
	ReportingSilent Reporting = "Silent"
)

// ReportingInput is what the hub observed of an agent. All times are taken from the hub's clock. The timestamps in
// heartbeats come from the agent's clock: the hub only notices that they change.
type ReportingInput struct {
	Now time.Time
	// Cluster is the current Cluster. Config is the hub's configuration.
	Cluster *fleet.Cluster
	Config  config.Config
	// Since is the time of the last observation: LastSeen changed, the agent was deployed, or this process started to
	// observe.
	Since time.Time
	// NotBefore is the earliest time at which the agent may be judged silent. Zero means no such limit.
	NotBefore time.Time
	// Marked means that the agent was judged missing or silent and has not reported since.
	Marked bool
	// Adopted means that the agent has the hub's settings, because its own Bundle was applied.
	Adopted bool
	// Gaps are the times between heartbeats that were observed.
	Gaps Gaps
	// Heartbeats are those of all agents.
	Heartbeats Heartbeats
}

// ReportingOutcome is the hub's judgement of an agent.
type ReportingOutcome struct {
	Stage Reporting
	// Late means that the agent has reported before and has missed two or more heartbeats.
	Late bool
	// Overdue means that the agent is silent and has to be marked, also if many others are late.
	Overdue bool
	// Absent means that no agent has ever reported, although there was time for that. Rollouts do not wait for it.
	Absent bool
	// LookAgain is when the outcome may change without any event. Zero means never.
	LookAgain time.Time
}

// DecideReporting decides whether an agent reports. It never compares the agent's clock with the hub's clock.
func DecideReporting(in ReportingInput) ReportingOutcome {
	switch {
	case !AgentExpected(in.Cluster, in.Config.Bootstrap):
		return ReportingOutcome{Stage: ReportingUnexpected}
	case in.Cluster.Status.Agent.LastSeen.IsZero():
		return awaited(in)
	}
	interval := CheckinInterval(in)
	late, silent := in.Since.Add(2*interval), in.Since.Add(silentAfter(interval))
	if silent.Before(in.NotBefore) {
		silent = in.NotBefore
	}
	switch {
	case in.Marked:
		return ReportingOutcome{Stage: ReportingSilent, Late: true}
	case in.Now.Before(silent):
		return ReportingOutcome{Stage: ReportingHeard, Late: !in.Now.Before(late), LookAgain: silent}
	}
	until := withheldUntil(in)
	return ReportingOutcome{Stage: ReportingSilent, Late: true, Overdue: !until.IsZero() && !in.Now.Before(until), LookAgain: until}
}

// awaited judges an agent that has not reported since it was last deployed.
func awaited(in ReportingInput) ReportingOutcome {
	until := in.Since.Add(AgentPatience)
	expired := !in.Now.Before(until)
	switch {
	case in.Marked || expired && AgentDeployed(in.Cluster):
		return ReportingOutcome{Stage: ReportingMissing, Absent: true}
	case expired:
		return ReportingOutcome{Stage: ReportingAwaited, Absent: true} // it is installed by hand, or condition Imported says why it is not deployed
	}
	return ReportingOutcome{Stage: ReportingAwaited, LookAgain: until}
}

// silentAfter returns the time without a heartbeat after which an agent is silent.
func silentAfter(interval time.Duration) time.Duration { return WithJitter(3 * interval) }

// WithJitter returns the longest time an agent's interval may take. Agents vary each interval by up to a tenth.
func WithJitter(interval time.Duration) time.Duration { return interval + interval/10 }

// AgentExpected reports whether a Cluster should have an agent.
func AgentExpected(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	disabled := bootstrap.LocalAgentDisabled && clusters.IsLocal(cluster, bootstrap)
	return !disabled && cluster.DeletionTimestamp == nil && cluster.Labels[fleet.LabelClusterManagement] == ""
}

// AgentDeployed reports whether the hub has deployed a Cluster's agent.
func AgentDeployed(cluster *fleet.Cluster) bool {
	imported := conditions.Get(cluster.Status.Conditions, conditions.Imported)
	return cluster.Spec.KubeConfigSecret != "" && imported != nil && imported.Status == corev1.ConditionTrue
}

// MarkedNotReporting reports whether a Cluster's condition says that its agent does not report. A condition set before
// the agent's first heartbeat no longer counts after that heartbeat.
func MarkedNotReporting(cluster *fleet.Cluster) bool {
	said := conditions.Get(cluster.Status.Conditions, conditions.AgentReporting)
	return said != nil && said.Reason == conditions.ReasonAgentNotReporting &&
		(said.Message != missingMessage || cluster.Status.Agent.LastSeen.IsZero())
}

// Messages of condition AgentReporting. They are constant, so that a lasting silence does not change the condition.
const (
	awaitedMessage  = "no agent has reported yet"
	deployedMessage = "the agent is being deployed and has not reported yet"
	missingMessage  = "the agent was deployed but has not reported: check its pods in the agent's namespace of that cluster, " +
		"their Events and their log; they must reach the hub at its apiServerURL"
	// SilentMessage is also the message of condition Ready.
	SilentMessage = "the agent has missed three check-in intervals: check whether its pods run on that cluster, and whether their log says that " +
		"they do not reach the hub; until it reports again nothing is deployed there, and the status shows its last report"
)

// ReportingCondition returns condition AgentReporting of a Cluster, or nil if no agent is expected.
func ReportingCondition(stage Reporting, cluster *fleet.Cluster) *genericcondition.GenericCondition {
	condition := &genericcondition.GenericCondition{Type: conditions.AgentReporting, Status: corev1.ConditionFalse}
	switch stage {
	case ReportingHeard:
		condition.Status = corev1.ConditionTrue
	case ReportingAwaited:
		condition.Reason, condition.Message = conditions.ReasonAwaitingAgent, awaitedMessage
		if cluster.Spec.KubeConfigSecret != "" {
			condition.Message = deployedMessage
		}
	case ReportingMissing:
		condition.Reason, condition.Message = conditions.ReasonAgentNotReporting, missingMessage
	case ReportingSilent:
		condition.Reason, condition.Message = conditions.ReasonAgentNotReporting, SilentMessage
	default:
		return nil
	}
	return condition
}

// KnowsIdentity reports whether a token belongs to one of the accounts. The token comes from a downstream cluster and
// is not verified. If the answer is false, the hub delivers a bootstrap token to that cluster; if it is true, it does
// not.
func KnowsIdentity(token string, accounts []types.UID) bool {
	parsed, err := protocol.ParseAccountToken(token)
	return err == nil && slices.Contains(accounts, types.UID(parsed.AccountUID))
}

// AllReplaced reports whether every granted registration of a Cluster has lost its account. The hub then knows, without
// waiting for silence, that the agent's identity is dead.
func AllReplaced(requests []*fleet.ClusterRegistration) bool {
	granted := 0
	for _, request := range requests {
		if !request.Status.Granted || request.DeletionTimestamp != nil {
			continue
		}
		granted++
		if said := conditions.Get(request.Status.Conditions, conditions.Granted); said == nil || said.Reason != conditions.ReasonAccountReplaced {
			return false
		}
	}
	return granted > 0
}
