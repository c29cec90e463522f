package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is a downstream Kubernetes cluster that Fleet deploys to. It joins in
// one of two ways: with kubeConfigSecret set, Fleet installs the agent there;
// without, an agent installed by hand registers itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusters
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Bundles-Ready",type=string,JSONPath=`.status.display.readyBundles`
// +kubebuilder:printcolumn:name="Last-Seen",type=string,JSONPath=`.status.agent.lastSeen`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterSpec `json:"spec,omitempty"`
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// ClusterSpec says who the cluster is, how to reach it, and how its agent runs.
type ClusterSpec struct {
	// Paused stops updates to the BundleDeployments of this cluster.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// ClientID is the identity under which the agent registers. Set it beforehand
	// to tie an agent to this Cluster; otherwise it is generated on import, or
	// copied from the registration that created the Cluster.
	// +optional
	// +nullable
	ClientID string `json:"clientID,omitempty"`

	// KubeConfigSecret names a Secret holding a kubeconfig of the cluster. When
	// set, Fleet installs the agent; when empty, the agent is expected to come.
	// +optional
	// +nullable
	KubeConfigSecret string `json:"kubeConfigSecret,omitempty"`

	// KubeConfigSecretNamespace is the namespace of KubeConfigSecret; empty means
	// the Cluster's own. Only namespaces the operator allows are read.
	// +optional
	// +nullable
	KubeConfigSecretNamespace string `json:"kubeConfigSecretNamespace,omitempty"`

	// RedeployAgentGeneration forces a new deployment of the agent, with a new
	// registration, whenever it differs from status.agentDeployedGeneration.
	// +optional
	RedeployAgentGeneration int64 `json:"redeployAgentGeneration,omitempty"`

	// AgentEnvVars are added to the environment of the agent's container.
	// +optional
	// +nullable
	AgentEnvVars []corev1.EnvVar `json:"agentEnvVars,omitempty"`

	// AgentNamespace is the namespace of the agent in the downstream cluster;
	// empty means the system namespace. It is also the agent's scope, which keeps
	// several agents in one cluster apart.
	// +optional
	// +nullable
	AgentNamespace string `json:"agentNamespace,omitempty"`

	// PrivateRepoURL is put before the agent's image name in place of the global
	// registry.
	// +optional
	// +nullable
	PrivateRepoURL string `json:"privateRepoURL,omitempty"`

	// TemplateValues are available to the templates of a Bundle's Helm values, as
	// .ClusterValues.
	// +optional
	// +nullable
	TemplateValues *GenericMap `json:"templateValues,omitempty"`

	// AgentTolerations are added to the two tolerations every agent has.
	// +optional
	// +nullable
	AgentTolerations []corev1.Toleration `json:"agentTolerations,omitempty"`

	// AgentAffinity replaces the agent's built-in affinity as a whole; an empty
	// object removes it.
	// +optional
	// +nullable
	AgentAffinity *corev1.Affinity `json:"agentAffinity,omitempty"`

	// AgentResources are the resource requests and limits of the agent's container.
	// +optional
	// +nullable
	AgentResources *corev1.ResourceRequirements `json:"agentResources,omitempty"`

	// HostNetwork runs the agent in its node's network; absent means false.
	// +optional
	// +nullable
	HostNetwork *bool `json:"hostNetwork,omitempty"`

	// AgentSchedulingCustomization gives the agent a priority class and a
	// disruption budget of its own.
	// +optional
	// +nullable
	AgentSchedulingCustomization *AgentSchedulingCustomization `json:"agentSchedulingCustomization,omitempty"`

	// AgentPullSecrets are the image pull secrets of the agent. Absent means the
	// global list, whose Secrets are copied downstream; a list, even an empty one,
	// is used as it is and nothing is copied.
	// +optional
	// +nullable
	AgentPullSecrets *[]corev1.LocalObjectReference `json:"agentPullSecrets,omitempty"`
}

// AgentSchedulingCustomization protects the agent against preemption and eviction.
type AgentSchedulingCustomization struct {
	// PriorityClass, when set, is created for the agent and used by it.
	// +optional
	PriorityClass *PriorityClassSpec `json:"priorityClass,omitempty"`

	// PodDisruptionBudget, when set, is created for the agent's pods.
	// +optional
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
}

// PriorityClassSpec describes the agent's priority class.
type PriorityClassSpec struct {
	// Value is the priority of the agent's pods, as in a Kubernetes PriorityClass.
	// +optional
	Value int `json:"value,omitempty"`

	// PreemptionPolicy is Never or PreemptLowerPriority; empty means the latter.
	// +optional
	PreemptionPolicy corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
}

// PodDisruptionBudgetSpec describes the agent's disruption budget. At most one of
// its fields takes effect.
type PodDisruptionBudgetSpec struct {
	// MinAvailable is a number of pods or a percentage, as text.
	// +optional
	MinAvailable string `json:"minAvailable,omitempty"`

	// MaxUnavailable is a number of pods or a percentage, as text.
	// +optional
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
}

// ClusterStatus is what Fleet knows about a cluster. Several controllers and the
// agent write to it, each only its own fields.
type ClusterStatus struct {
	// Conditions: Processed, Imported, Reconciled and Ready, and those this
	// implementation adds.
	// +optional
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// Namespace is the cluster's own namespace in the upstream cluster, where its
	// BundleDeployments live.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Summary counts the cluster's bundles by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`

	// ResourceCounts counts the deployed resources of the cluster by state.
	// +optional
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`

	// ReadyGitRepos is the number of GitRepos whose deployments here are ready.
	// +optional
	ReadyGitRepos int `json:"readyGitRepos"`

	// DesiredReadyGitRepos is the number of GitRepos deploying to this cluster.
	// +optional
	DesiredReadyGitRepos int `json:"desiredReadyGitRepos"`

	// ReadyHelmOps is the number of HelmOps whose deployments here are ready.
	// +optional
	ReadyHelmOps int `json:"readyHelmOps"`

	// DesiredReadyHelmOps is the number of HelmOps deploying to this cluster.
	// +optional
	DesiredReadyHelmOps int `json:"desiredReadyHelmOps"`

	// AgentEnvVarsHash detects changes of spec.agentEnvVars; empty when there are none.
	// +optional
	// +nullable
	AgentEnvVarsHash string `json:"agentEnvVarsHash,omitempty"`

	// AgentPrivateRepoURL is the spec.privateRepoURL last seen.
	// +optional
	// +nullable
	AgentPrivateRepoURL string `json:"agentPrivateRepoURL,omitempty"`

	// AgentHostNetwork is the spec.hostNetwork last seen.
	// +optional
	// +nullable
	AgentHostNetwork bool `json:"agentHostNetwork,omitempty"`

	// AgentDeployedGeneration is the spec.redeployAgentGeneration of the last
	// import; absent before the first.
	// +optional
	// +nullable
	AgentDeployedGeneration *int64 `json:"agentDeployedGeneration,omitempty"`

	// AgentMigrated is true after an import; false or absent asks for one.
	// +optional
	AgentMigrated bool `json:"agentMigrated,omitempty"`

	// AgentNamespaceMigrated is true after an import; false or absent asks for one.
	// +optional
	AgentNamespaceMigrated bool `json:"agentNamespaceMigrated,omitempty"`

	// CattleNamespaceMigrated is true after an import; false or absent asks for one.
	// +optional
	CattleNamespaceMigrated bool `json:"cattleNamespaceMigrated,omitempty"`

	// AgentAffinityHash detects changes of spec.agentAffinity; empty when there is none.
	// +optional
	AgentAffinityHash string `json:"agentAffinityHash,omitempty"`

	// AgentResourcesHash detects changes of spec.agentResources; empty when there are none.
	// +optional
	// +nullable
	AgentResourcesHash string `json:"agentResourcesHash,omitempty"`

	// AgentTolerationsHash detects changes of spec.agentTolerations; empty when there are none.
	// +optional
	// +nullable
	AgentTolerationsHash string `json:"agentTolerationsHash,omitempty"`

	// AgentSchedulingCustomizationHash detects changes of
	// spec.agentSchedulingCustomization; empty when there is none.
	// +optional
	AgentSchedulingCustomizationHash string `json:"agentSchedulingCustomizationHash,omitempty"`

	// AgentConfigChanged asks for another import; a successful one clears it.
	// +optional
	AgentConfigChanged bool `json:"agentConfigChanged,omitempty"`

	// APIServerURL is the upstream URL given to the agent by the last import.
	// +optional
	// +nullable
	APIServerURL string `json:"apiServerURL,omitempty"`

	// APIServerCAHash is the hash of the CA given to the agent by the last import.
	// +optional
	// +nullable
	APIServerCAHash string `json:"apiServerCAHash,omitempty"`

	// AgentTLSMode is the TLS mode of the last import: strict or system-store.
	// +optional
	// +nullable
	AgentTLSMode string `json:"agentTLSMode,omitempty"`

	// GarbageCollectionInterval is how often the agent looks for releases without
	// a BundleDeployment, as given by the last import.
	// +optional
	GarbageCollectionInterval *metav1.Duration `json:"garbageCollectionInterval,omitempty"`

	// Display holds texts for printer columns.
	// +optional
	Display ClusterDisplay `json:"display,omitempty"`

	// Agent is the agent's last sign of life, written by the agent itself.
	// +optional
	Agent AgentStatus `json:"agent,omitempty"`

	// Scheduled is true when a Schedule covers this cluster.
	// +optional
	Scheduled bool `json:"scheduled,omitempty"`

	// ActiveSchedule is true while a Schedule that covers this cluster allows updates.
	// +optional
	ActiveSchedule bool `json:"activeSchedule,omitempty"`
}

// ClusterDisplay holds texts for printer columns.
type ClusterDisplay struct {
	// ReadyBundles is "<ready>/<all>".
	// +optional
	ReadyBundles string `json:"readyBundles,omitempty"`

	// State is the worst state of the cluster's bundles, or WaitCheckIn before the
	// first heartbeat; empty when all are ready.
	// +optional
	// +nullable
	State string `json:"state,omitempty"`
}

// AgentStatus is the agent's last sign of life.
type AgentStatus struct {
	// LastSeen is the time of the last heartbeat, by the agent's clock; null
	// before the first.
	// +optional
	// +nullable
	LastSeen metav1.Time `json:"lastSeen"`

	// Namespace is where the agent runs downstream.
	// +optional
	// +nullable
	Namespace string `json:"namespace"`
}
