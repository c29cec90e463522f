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
	// ErrorMapping is the value of names.ErrorMappingVariable, or empty.
	ErrorMapping string
}

// AgentValues are the values with which charts/fleet-agent is rendered.
type AgentValues struct {
	// Namespace is the agent's namespace; Scope is the Cluster's spec.agentNamespace (AGENT_SCOPE).
	Namespace, Scope string
	Replicas         int32
	// Image is the complete reference, including the registry.
	Image, ImagePullPolicy string
	ImagePullSecrets       []corev1.LocalObjectReference
	// CheckinInterval is a Go duration as text.
	CheckinInterval string
	// BundleDeploymentWorkers and DriftWorkers are numbers as text.
	BundleDeploymentWorkers, DriftWorkers string
	// LeaseDuration, RetryPeriod and RenewDeadline configure the leader election, as Go durations in text.
	LeaseDuration, RetryPeriod, RenewDeadline string
	Debug                                     bool
	DebugLevel                                int
	DisableSecurityContext                    bool
	Env                                       []corev1.EnvVar
	// Tolerations follow the two that every agent has.
	Tolerations []corev1.Toleration
	// Affinity replaces the built-in affinity. Nil keeps it.
	Affinity            *corev1.Affinity
	Resources           *corev1.ResourceRequirements
	HostNetwork         bool
	PriorityClass       *fleet.PriorityClassSpec
	PodDisruptionBudget *fleet.PodDisruptionBudgetSpec
	// SchedulingInBundle means that the agent's Bundle contains the PriorityClass and the PodDisruptionBudget, because no
	// import creates them.
	SchedulingInBundle bool
	// Bootstrap is rendered as Secret fleet-agent-bootstrap. Nil leaves the agent's identity unchanged.
	Bootstrap *protocol.Bootstrap
	// Config is rendered as ConfigMap fleet-agent. Nil renders none, as in the agent's Bundle.
	Config *config.Agent
}

// AgentDeployment describes an agent to be applied downstream.
type AgentDeployment struct {
	TLSMode string
	// SetID marks the objects as a set.
	SetID  string
	Values AgentValues
	// NewRegistration makes the agent drop its identity: at the first import, when a new generation is requested, and
	// when the agent moves.
	NewRegistration bool
	// LeaveNamespace is the namespace that the agent leaves, or empty if it does not move.
	LeaveNamespace string
	// LeaveSetIDs are the IDs of the sets that the agent in LeaveNamespace may belong to.
	LeaveSetIDs []string
	// Accounts are the UIDs of the live accounts of the Cluster's granted registrations. An agent whose stored
	// identity belongs to one of them gets no bootstrap token, unless it has to register again.
	Accounts []types.UID
	// InspectOnly means that nothing has changed. The agent is applied only if it is missing.
	InspectOnly bool
	// BesideBundle leaves to the agent's Bundle what it carries. Only ConfigMap, PriorityClass, PodDisruptionBudget
	// and pull Secrets are applied.
	BesideBundle bool
	// Corrects means that the settings of a Deployment that is there are corrected before the apply. Settings that the agent's
	// Bundle has added to it go only that way: server-side apply keeps fields of other managers.
	Corrects bool
	// Identity identifies the agent's Secrets as this Cluster's. An agent without such a Secret has to register again.
	Identity AgentIdentity
	// Readdress, if set, is the new address of the hub. It is written to the agent's stored kubeconfig, or to its
	// bootstrap Secret while it has no kubeconfig.
	Readdress *HubAddress
	// PullSecrets are the names of the Secrets to copy from the hub's system namespace.
	PullSecrets []string
	// DroppedPullSecrets are the copies to remove from the agent's namespace. LeftPullSecrets are the copies to remove
	// from LeaveNamespace.
	DroppedPullSecrets, LeftPullSecrets []string
	// Scheduling means that another scheduling customisation was applied before. Its unwanted objects are removed.
	Scheduling bool
	// Leftovers means that leftovers in the default system namespace are removed, because this hub uses another one.
	Leftovers bool
}

// AgentIdentity says to which Cluster the Secrets in an agent's namespace belong.
type AgentIdentity struct {
	// ClusterNamespace and ClusterName name the Cluster. TokenName is the name of its import token.
	ClusterNamespace, ClusterName, TokenName string
}

// HubAddress is the address at which an agent reaches its hub.
type HubAddress struct {
	URL string
	// CA is PEM. Empty means the system's roots.
	CA []byte
	// FromSecret means that the URL comes from the kubeconfig Secret, and not from the hub's configuration.
	FromSecret bool
}
