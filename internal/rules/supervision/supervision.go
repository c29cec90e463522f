package supervision

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// How often the hub looks downstream for an agent that it does not hear of: each time twice as long after the time
// before, from the first to the last. An agent that was heard of once is looked for less eagerly: what its cluster
// suffers from is rarely the agent.
const (
	FirstLook      = 10 * time.Second
	LastLook       = 10 * time.Minute
	FirstLookStale = time.Minute
	LastLookStale  = time.Hour
)

// StartPatience is how long a pod may be without a node or without its image before that is called a trouble: clusters
// that grow and registries that hiccup need a moment.
const StartPatience = 25 * time.Second

// Stage says how an agent stands that the hub deployed and does not hear of.
type Stage string

const (
	// Missing means that an object of the agent is gone, or that it was told not to run: it is applied again.
	Missing Stage = "Missing"
	// Troubled means that something downstream keeps the agent's pod from running; the reason says what.
	Troubled Stage = "Troubled"
	// Starting means that the agent's pod is on its way.
	Starting Stage = "Starting"
	// Unable means that the agent runs without the means to register: they are delivered again.
	Unable Stage = "Unable"
	// Silent means that the agent has been running for a while without asking this hub for anything: it is given
	// a fresh token, in case its own is worth nothing.
	Silent Stage = "Silent"
	// Running means that the agent runs, and that nothing is to be done but to wait.
	Running Stage = "Running"
)

// Repair is what an import does again downstream, though nothing was changed on the hub.
type Repair string

const (
	// RepairNone leaves the agent as it is.
	RepairNone Repair = ""
	// RepairObjects applies the agent's objects, in place.
	RepairObjects Repair = "Objects"
	// RepairIdentity also hands over the means to register, unless the agent turns out to have registered. The
	// identity that it may have is never taken away.
	RepairIdentity Repair = "Identity"
)

// Input is what was found of an agent that the hub does not hear of. Times are of the hub's clock only:
// downstream clocks may be wrong.
type Input struct {
	// Awaited is how long the hub has been waiting for the agent, since it was deployed or since the hub noticed.
	Awaited time.Duration
	// Quiet is how long ago the agent was deployed or last given a fresh token; FreshTokens is how often that was.
	Quiet       time.Duration
	FreshTokens int
	// Heard says that the agent was heard of once.
	Heard bool
	// Known means that the stored identity belongs to a live account of a granted registration, see KnowsIdentity.
	// Requested means that the client has made a ClusterRegistration since the agent was deployed.
	Known, Requested bool
	// Namespace is the agent's, Terminating whether it is going.
	Namespace   string
	Terminating bool
	// Identity says that the agent has one in Secret fleet-agent.
	Identity bool
	// Delivered is the token in the agent's Secret fleet-agent-bootstrap, Token the one of the Cluster's import token.
	// Empty is none.
	Delivered, Token string
	// Deployment is the agent's; nil is none. ReplicaSets and Pods are those with its labels.
	Deployment *appsv1.Deployment
	// Wanted is what the settings make of that Deployment now; nil is that they cannot be used.
	Wanted      *appsv1.Deployment
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod
}

// Outcome is what is owed to an agent that the hub does not hear of.
type Outcome struct {
	Stage Stage
	// Reason and Message say what keeps the agent from running; empty is nothing. The message is the same as long as
	// the cause is.
	Reason, Message string
	Repair          Repair
	// FreshToken ends the Cluster's import token: another one is made and delivered, to an agent that was heard of once
	// after the next look.
	FreshToken bool
}

// Supervised says whether the hub looks after an agent downstream: it brought it there, and either has never heard
// of it or counts it as gone. Clusters of live agents are left in peace.
func Supervised(cluster *fleet.Cluster, stale bool) bool {
	return cluster.Spec.KubeConfigSecret != "" && cluster.Status.AgentDeployedGeneration != nil && (NeverHeard(cluster) || stale)
}

// NeverHeard says whether no heartbeat came since the agent was deployed.
func NeverHeard(cluster *fleet.Cluster) bool { return cluster.Status.Agent.LastSeen.IsZero() }

// Decide decides what is owed to an agent that the hub does not hear of.
func Decide(in Input) Outcome {
	switch {
	case in.Terminating:
		return Outcome{Stage: Troubled, Reason: fleet.ReasonNamespaceTerminating, Message: namespaceTerminating}
	case in.Deployment == nil, in.Deployment.Spec.Replicas != nil && *in.Deployment.Spec.Replicas == 0:
		return Outcome{Stage: Missing, Repair: RepairObjects}
	}
	if anyRunning(in.Pods) {
		return await(in)
	}
	if reason, message, repair := podTrouble(in); reason != "" {
		if corrected(in) {
			repair = RepairObjects
		}
		if !able(in) { // or it would run in vain, once it runs
			repair = RepairIdentity
		}
		return Outcome{Stage: Troubled, Reason: reason, Message: message, Repair: repair}
	}
	if !able(in) {
		return Outcome{Stage: Unable, Repair: RepairIdentity}
	}
	return Outcome{Stage: Starting}
}

// await sees to it that an agent that runs can register, if it has to.
func await(in Input) Outcome {
	switch {
	case !able(in):
		return Outcome{Stage: Unable, Repair: RepairIdentity}
	case in.Identity && in.Known, in.Requested, in.Quiet < freshTokenAfter(in.FreshTokens):
		return Outcome{Stage: Running}
	}
	return Outcome{Stage: Silent, FreshToken: true}
}

// able says whether an agent has what it needs to be heard of: an identity of which the hub knows, or the means to get
// one that are good today. A new agent's import token is on its way where there is none (TokenLost); that of one that
// was heard of has ended, and its means with it.
func able(in Input) bool {
	switch {
	case in.Identity && in.Known:
		return true
	case in.Token == "":
		return in.Delivered != "" && !in.Heard
	}
	return in.Delivered == in.Token
}

// freshTokenAfter is how long an agent that runs may take to ask this hub for something before it is given another
// token, after so many of them.
func freshTokenAfter(given int) time.Duration {
	patience := []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour}
	return patience[min(given, len(patience)-1)]
}

// NextLook is how long after a look the next one is due, after so many of them in vain. Whoever asks adds some spread.
func NextLook(looks int, heard bool) time.Duration {
	first, last := FirstLook, LastLook
	if heard {
		first, last = FirstLookStale, LastLookStale
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

// podRuns says whether all containers of a pod run now.
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
