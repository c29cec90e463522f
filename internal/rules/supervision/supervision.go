package supervision

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// The hub inspects the downstream cluster of an agent that does not report. The interval between two inspections
// starts at the first value and doubles up to the last one. The Stale values apply to agents that have reported
// before: their silence is rarely caused by the agent itself.
const (
	FirstInspection      = 10 * time.Second
	LastInspection       = 10 * time.Minute
	FirstInspectionStale = time.Minute
	LastInspectionStale  = time.Hour
)

// StartPatience is how long a pod may stay unscheduled or without its image before the condition reports a problem.
// Cluster autoscalers and registries need a moment.
const StartPatience = 25 * time.Second

// Stage is the state of an agent that the hub deployed and that does not report.
type Stage string

const (
	// Missing means that an object of the agent was deleted, or its Deployment was scaled to zero. It is applied
	// again.
	Missing Stage = "Missing"
	// Troubled means that something downstream keeps the agent's pod from running; the reason says what.
	Troubled Stage = "Troubled"
	// Starting means that the agent's pod is starting.
	Starting Stage = "Starting"
	// Unable means that the agent runs but cannot register. Its bootstrap Secret is delivered again.
	Unable Stage = "Unable"
	// Silent means that the agent has been running for a while without sending a request to this hub. It gets a fresh
	// token, in case its own token is invalid.
	Silent Stage = "Silent"
	// Running means that the agent runs. The hub only waits.
	Running Stage = "Running"
)

// Repair says what an import applies again downstream although nothing changed on the hub.
type Repair string

const (
	// RepairNone leaves the agent as it is.
	RepairNone Repair = ""
	// RepairObjects applies the agent's objects without reinstalling it.
	RepairObjects Repair = "Objects"
	// RepairSettings is RepairObjects for an agent that does not run and that has other settings than the Cluster. Its
	// Deployment is corrected first.
	RepairSettings Repair = "Settings"
	// RepairIdentity also delivers the bootstrap Secret, unless the agent has registered meanwhile. An identity that
	// the agent already has is never removed.
	RepairIdentity Repair = "Identity"
	// RepairRejected is RepairIdentity for an agent whose stored token the API server rejects although its account
	// exists, as after a change of the key that signs tokens.
	RepairRejected Repair = "Rejected"
)

// NeedsBootstrap reports whether a repair delivers the bootstrap Secret.
func (r Repair) NeedsBootstrap() bool { return r == RepairIdentity || r == RepairRejected }

// Then returns the repair that an agent needs after another inspection. An identity that is needed is not forgotten.
func (r Repair) Then(found Repair) Repair {
	if found == RepairNone || r.NeedsBootstrap() && !found.NeedsBootstrap() {
		return r
	}
	return found
}

// Input describes an agent that does not report. All durations are measured with the hub's clock, because downstream
// clocks may be wrong.
type Input struct {
	// Awaited is how long the hub has been waiting: since the agent was deployed, or since the hub noticed its
	// silence.
	Awaited time.Duration
	// Quiet is the time since the agent was deployed or last got a fresh token. FreshTokens counts those tokens.
	Quiet       time.Duration
	FreshTokens int
	// Heard means that the agent has reported before.
	Heard bool
	// Known means that the stored identity belongs to a live account of a granted registration, see KnowsIdentity.
	// Requested means that the client has made a ClusterRegistration since the agent was deployed.
	Known, Requested bool
	// Stored is the token of the stored identity. Rejected means that the API server does not accept it.
	Stored   string
	Rejected bool
	// Namespace is the agent's namespace. Terminating means that it is being deleted.
	Namespace   string
	Terminating bool
	// Identity means that the agent has an identity in Secret fleet-agent.
	Identity bool
	// Delivered is the token in the agent's Secret fleet-agent-bootstrap. Token is that of the Cluster's import token.
	// Each is empty if its Secret or token does not exist.
	Delivered, Token string
	// Deployment is the agent's Deployment, nil if it does not exist. ReplicaSets and Pods are those with its labels.
	Deployment *appsv1.Deployment
	// Wanted is the Deployment rendered from the current settings, nil if the settings are invalid.
	Wanted      *appsv1.Deployment
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod
}

// Outcome is what the hub does for an agent that does not report.
type Outcome struct {
	Stage Stage
	// Reason and Message say what keeps the agent from running. They are empty if nothing does. The message stays the
	// same while the cause stays the same.
	Reason, Message string
	Repair          Repair
	// FreshToken asks for a new import token: the current one is ended, another one is created and delivered. An agent
	// that has reported before gets it after the next inspection.
	FreshToken bool
}

// Supervised reports whether the hub inspects an agent's downstream cluster. It does so for agents that it deployed
// and that have never reported or are stale. It does not inspect clusters whose agents report.
func Supervised(cluster *fleet.Cluster, stale bool) bool {
	return cluster.Spec.KubeConfigSecret != "" && cluster.Status.AgentDeployedGeneration != nil && (NeverReported(cluster) || stale)
}

// NeverReported reports whether no heartbeat has arrived since the agent was deployed.
func NeverReported(cluster *fleet.Cluster) bool { return cluster.Status.Agent.LastSeen.IsZero() }

// Decide returns what the hub does for an agent that does not report.
func Decide(in Input) Outcome {
	switch {
	case in.Terminating:
		return Outcome{Stage: Troubled, Reason: conditions.ReasonNamespaceTerminating, Message: fmt.Sprintf(namespaceTerminating, in.Namespace)}
	case in.Deployment == nil, in.Deployment.Spec.Replicas != nil && *in.Deployment.Spec.Replicas == 0:
		return Outcome{Stage: Missing, Repair: RepairObjects}
	}
	if anyRunning(in.Pods) {
		return await(in)
	}
	if reason, message, repair := podTrouble(in); reason != "" {
		if corrected(in) {
			repair = RepairSettings
		}
		if !able(in) { // without it, the pod could run but not register
			repair = identityRepair(in)
		}
		return Outcome{Stage: Troubled, Reason: reason, Message: message, Repair: repair}
	}
	if !able(in) {
		return Outcome{Stage: Unable, Repair: identityRepair(in)}
	}
	return Outcome{Stage: Starting}
}

// await returns the outcome for an agent that runs: it makes sure that the agent can register if it has to.
func await(in Input) Outcome {
	switch {
	case !able(in):
		return Outcome{Stage: Unable, Repair: identityRepair(in)}
	case isAccepted(in), in.Requested, in.Quiet < freshTokenAfter(in.FreshTokens):
		return Outcome{Stage: Running}
	}
	return Outcome{Stage: Silent, FreshToken: true}
}

// isAccepted reports whether the agent has an identity that the hub knows and accepts.
func isAccepted(in Input) bool { return in.Identity && in.Known && !in.Rejected }

// identityRepair returns the repair of an agent that cannot register.
func identityRepair(in Input) Repair {
	if in.Identity && in.Known && in.Rejected {
		return RepairRejected
	}
	return RepairIdentity
}

// able reports whether an agent has what it needs to report: an identity that the hub knows, or a valid token to
// register with. While a new agent has no import token on the hub, the token that it already got counts as valid; the
// import recreates lost tokens (importing.TokenLost). If an agent that has reported before has no import token on the
// hub, its delivered token has expired.
func able(in Input) bool {
	switch {
	case isAccepted(in):
		return true
	case in.Token == "":
		return in.Delivered != "" && !in.Heard
	}
	return in.Delivered == in.Token
}

// freshTokenAfter returns how long a running agent may stay silent before it gets another token. The time grows with
// the number of tokens given.
func freshTokenAfter(given int) time.Duration {
	patience := []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour}
	return patience[min(given, len(patience)-1)]
}

// NextLook returns the delay until the next inspection after a number of inspections without success. The caller adds
// jitter.
func NextLook(looks int, heard bool) time.Duration {
	first, last := FirstInspection, LastInspection
	if heard {
		first, last = FirstInspectionStale, LastInspectionStale
	}
	return min(first<<min(looks, 16), last)
}

func anyRunning(pods []corev1.Pod) bool {
	for i := range pods {
		if pods[i].DeletionTimestamp == nil && podRuns(&pods[i]) {
			return true
		}
	}
	return false
}

// podRuns reports whether all containers of a pod are running.
func podRuns(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Running == nil {
			return false
		}
	}
	return true
}
