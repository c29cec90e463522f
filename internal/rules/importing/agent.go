package importing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AgentDefaults are the settings of every agent that come from the controller's own environment.
type AgentDefaults struct {
	Replicas                                  int32
	LeaseDuration, RetryPeriod, RenewDeadline string
	Debug                                     bool
	DebugLevel                                int
	DisableSecurityContext                    bool
	// Env is put before a Cluster's own agentEnvVars, unless those name the same variable.
	Env []corev1.EnvVar
}

// AgentValues is everything a deployment of the agent depends on: what charts/fleet-agent is rendered with.
type AgentValues struct {
	// Namespace is the agent's namespace; Scope is the Cluster's spec.agentNamespace (AGENT_SCOPE).
	Namespace, Scope string
	Replicas         int32
	// Image is complete, registry included.
	Image, ImagePullPolicy string
	ImagePullSecrets       []corev1.LocalObjectReference
	// CheckinInterval is a Go duration in text.
	CheckinInterval string
	// The numbers of the agent's workers, in text.
	BundleDeploymentWorkers, DriftWorkers string
	// The agent's leader election, Go durations in text.
	LeaseDuration, RetryPeriod, RenewDeadline string
	Debug                                     bool
	DebugLevel                                int
	DisableSecurityContext                    bool
	Env                                       []corev1.EnvVar
	// Tolerations come after the two every agent has.
	Tolerations []corev1.Toleration
	// Affinity replaces the built-in one; nil keeps it.
	Affinity            *corev1.Affinity
	Resources           *corev1.ResourceRequirements
	HostNetwork         bool
	PriorityClass       *fleet.PriorityClassSpec
	PodDisruptionBudget *fleet.PodDisruptionBudgetSpec
	// Bootstrap is rendered as Secret fleet-agent-bootstrap; nil leaves the agent's identity as it is.
	Bootstrap *protocol.Bootstrap
	// Config is rendered as ConfigMap fleet-agent; nil renders none, as in the agent's Bundle.
	Config *config.Agent
}

// AgentDeployment is an agent to be applied downstream.
type AgentDeployment struct {
	// Kubeconfig reaches the downstream cluster. It is a user's: not to be trusted.
	Kubeconfig []byte
	TLSMode    string
	// SetID marks the objects as a set.
	SetID  string
	Values AgentValues
	// NewRegistration makes the agent give up its identity: the first import, and whenever somebody
	// asks for it by the generation or the agent moves.
	NewRegistration bool
	// LeaveNamespace is where the agent was before it moved; empty if it did not.
	LeaveNamespace string
	// Accounts are the UIDs of the live accounts of the Cluster's granted registrations. An agent whose stored identity
	// is of one of them is handed no bootstrap token, unless it is to register again.
	Accounts []types.UID
	// LookOnly means that nothing has changed: nothing is applied if the agent is there.
	LookOnly bool
	// BesideBundle leaves to the agent's Bundle what it carries: only ConfigMap, PriorityClass, PodDisruptionBudget and
	// pull secrets are applied.
	BesideBundle bool
	// Identity is what the agent's Secrets say if they are this Cluster's. An agent without such a Secret needs a new
	// registration.
	Identity AgentIdentity
	// Readdress, if set, is the hub's address for the agent's stored kubeconfig, or for its bootstrap secret while it
	// has none.
	Readdress *HubAddress
	// PullSecrets are the names of Secrets to be copied from the hub's system namespace.
	PullSecrets []string
	// DroppedPullSecrets are the names of copies that are removed from the agent's namespace, LeftPullSecrets of those
	// that are removed from LeaveNamespace.
	DroppedPullSecrets, LeftPullSecrets []string
	// Scheduling means that another scheduling customisation was applied before: what of it is not wanted any more goes.
	Scheduling bool
	// Leftovers are removed where the hub's system namespace is not the usual one.
	Leftovers bool
}

// AgentIdentity tells whose agent the Secrets of an agent's namespace are.
type AgentIdentity struct {
	// ClusterNamespace and ClusterName are the Cluster's; TokenName is its import token's.
	ClusterNamespace, ClusterName, TokenName string
}

// HubAddress is how an agent reaches its hub.
type HubAddress struct {
	URL string
	// CA is PEM; empty means the system's roots.
	CA []byte
}
