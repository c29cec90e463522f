package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is a downstream Kubernetes cluster that Fleet deploys to. It joins in one of two ways: with kubeConfigSecret
// set, Fleet installs the agent there; without, an agent installed by hand registers itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusters
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Bundles-Ready",type=string,JSONPath=`.status.display.readyBundles`
// +kubebuilder:printcolumn:name="Last-Seen",type=string,JSONPath=`.status.agent.lastSeen`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Kubernetes",type=string,JSONPath=`.status.agent.kubernetesVersion`,priority=1
// +kubebuilder:printcolumn:name="Nodes-Ready",type=integer,JSONPath=`.status.agent.readyNodes`,priority=1
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.agent.nodes`,priority=1
// +kubebuilder:printcolumn:name="Platform",type=string,JSONPath=`.status.agent.platform`,priority=1
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.agent.agentVersion`,priority=1
// +kubebuilder:printcolumn:name="Credential-Expires",type=string,JSONPath=`.status.agent.credentialExpires`,priority=1
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec,omitempty"`
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

// ClusterSpec identifies the cluster and configures access to it and its agent.
type ClusterSpec struct {
	// Paused stops updates to the BundleDeployments of this cluster.
	Paused bool `json:"paused,omitempty"`

	// ClientID is the identity under which the agent registers. Set it beforehand to tie an agent to this Cluster;
	// otherwise it is generated on import, or copied from the registration that created the Cluster.
	// +nullable
	ClientID string `json:"clientID,omitempty"`

	// KubeConfigSecret names a Secret with a kubeconfig of the cluster. If it is set, Fleet installs the agent. If
	// it is empty, an agent must register itself.
	// +nullable
	KubeConfigSecret string `json:"kubeConfigSecret,omitempty"`

	// KubeConfigSecretNamespace is the namespace of KubeConfigSecret; empty means the Cluster's own. A Secret of
	// another namespace must list the Cluster's namespace in its annotation fleet.cattle.io/allowed-workspaces.
	// +nullable
	KubeConfigSecretNamespace string `json:"kubeConfigSecretNamespace,omitempty"`

	// RedeployAgentGeneration forces a new deployment of the agent, with a new
	// registration, whenever it differs from status.agentDeployedGeneration.
	RedeployAgentGeneration int64 `json:"redeployAgentGeneration,omitempty"`

	// AgentEnvVars are added to the environment of the agent's container.
	// +nullable
	AgentEnvVars []corev1.EnvVar `json:"agentEnvVars,omitempty"`

	// AgentNamespace is the namespace of the agent in the downstream cluster; empty means the system namespace. It is
	// also the agent's scope, which keeps several agents in one cluster apart.
	// +nullable
	AgentNamespace string `json:"agentNamespace,omitempty"`

	// PrivateRepoURL replaces the global registry as the prefix of the agent's image name.
	// +nullable
	PrivateRepoURL string `json:"privateRepoURL,omitempty"`

	// TemplateValues are available to the templates of a Bundle's Helm values, as .ClusterValues.
	// +nullable
	TemplateValues *GenericMap `json:"templateValues,omitempty"`

	// AgentTolerations are added to the two tolerations every agent has.
	// +nullable
	AgentTolerations []corev1.Toleration `json:"agentTolerations,omitempty"`

	// AgentAffinity replaces the agent's built-in affinity as a whole; an empty object removes it.
	// +nullable
	AgentAffinity *corev1.Affinity `json:"agentAffinity,omitempty"`

	// AgentResources are the resource requests and limits of the agent's container.
	// +nullable
	AgentResources *corev1.ResourceRequirements `json:"agentResources,omitempty"`

	// HostNetwork runs the agent in its node's network; absent means false.
	// +nullable
	HostNetwork *bool `json:"hostNetwork,omitempty"`

	// AgentSchedulingCustomization gives the agent a priority class and a disruption budget of its own.
	// +nullable
	AgentSchedulingCustomization *AgentSchedulingCustomization `json:"agentSchedulingCustomization,omitempty"`

	// AgentPullSecrets are the image pull secrets of the agent. Absent means the global list, whose Secrets are copied
	// downstream; a list, even an empty one, is used as it is and nothing is copied.
	// +nullable
	AgentPullSecrets *[]corev1.LocalObjectReference `json:"agentPullSecrets,omitempty"`
}

// AgentSchedulingCustomization protects the agent against preemption and eviction.
type AgentSchedulingCustomization struct {
	// PriorityClass, when set, is created for the agent and used by it.
	PriorityClass *PriorityClassSpec `json:"priorityClass,omitempty"`

	// PodDisruptionBudget, when set, is created for the agent's pods.
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
}

// PriorityClassSpec describes the agent's priority class.
type PriorityClassSpec struct {
	// Value is the priority of the agent's pods, as in a Kubernetes PriorityClass.
	Value int `json:"value,omitempty"`

	// PreemptionPolicy is Never or PreemptLowerPriority; empty means the latter.
	PreemptionPolicy corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
}

// PodDisruptionBudgetSpec describes the agent's disruption budget. At most one of its fields takes effect.
type PodDisruptionBudgetSpec struct {
	// MinAvailable is a number of pods or a percentage, as text.
	MinAvailable string `json:"minAvailable,omitempty"`

	// MaxUnavailable is a number of pods or a percentage, as text.
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
}
