package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxURL is the maximum length of a URL in a status as JSON, in bytes. A longer URL is cut.
const MaxURL = 2 << 10

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
	// +structType=atomic
	Summary BundleSummary `json:"summary,omitempty"`

	// ResourceCounts counts the deployed resources of the cluster by state.
	// +optional
	// +structType=atomic
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

	// AgentEnvVarsHash detects changes of spec.agentEnvVars. Empty if the field is empty.
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

	// AgentMigrated is true after an import. False or absent triggers an import.
	// +optional
	AgentMigrated bool `json:"agentMigrated,omitempty"`

	// AgentNamespaceMigrated is true after an import. False or absent triggers an import.
	// +optional
	AgentNamespaceMigrated bool `json:"agentNamespaceMigrated,omitempty"`

	// CattleNamespaceMigrated is true after an import. False or absent triggers an import.
	// +optional
	CattleNamespaceMigrated bool `json:"cattleNamespaceMigrated,omitempty"`

	// AgentAffinityHash detects changes of spec.agentAffinity. Empty if the field is empty.
	// +optional
	AgentAffinityHash string `json:"agentAffinityHash,omitempty"`

	// AgentResourcesHash detects changes of spec.agentResources. Empty if the field is empty.
	// +optional
	// +nullable
	AgentResourcesHash string `json:"agentResourcesHash,omitempty"`

	// AgentTolerationsHash detects changes of spec.agentTolerations. Empty if the field is empty.
	// +optional
	// +nullable
	AgentTolerationsHash string `json:"agentTolerationsHash,omitempty"`

	// AgentSchedulingCustomizationHash detects changes of spec.agentSchedulingCustomization. Empty if the field is
	// empty.
	// +optional
	AgentSchedulingCustomizationHash string `json:"agentSchedulingCustomizationHash,omitempty"`

	// AgentConfigChanged triggers another import. A successful import clears it.
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

	// GarbageCollectionInterval is the interval at which the agent looks for releases without a BundleDeployment, as
	// set by the last import.
	// +optional
	GarbageCollectionInterval *metav1.Duration `json:"garbageCollectionInterval,omitempty"`

	// Display holds texts for printer columns.
	// +optional
	// +structType=atomic
	Display ClusterDisplay `json:"display,omitempty"`

	// Agent contains the agent's last heartbeat and the facts it reports about its cluster. The agent writes it.
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
	// first heartbeat and while the agent is silent; empty when all are ready.
	// +optional
	// +nullable
	State string `json:"state,omitempty"`
}

// AgentStatus contains the agent's last heartbeat and the facts it reports about its cluster.
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

	// CredentialExpires is when the agent's credential expires; absent if it does not.
	// +optional
	CredentialExpires *metav1.Time `json:"credentialExpires,omitempty"`

	// RecoveryKey is the agent's public key. The hub pins it if the Cluster has
	// no key yet.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]*$`
	RecoveryKey string `json:"recoveryKey,omitempty"`

	// RecoveryTicket tells which recovery data the agent has: the time of its
	// ticket and a hash. If they are outdated, the hub offers newer ones.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	RecoveryTicket string `json:"recoveryTicket,omitempty"`

	// HubSerial is the serial of the last hub document that the agent stored;
	// absent before the first.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HubSerial int64 `json:"hubSerial,omitempty"`

	ClusterFacts `json:",inline"`
}

// ClusterFacts contains what an agent reports about its cluster and itself. It is only informational: no
// decision depends on it. Facts that an agent does not know, or may not read, are absent. An API server whose
// CRD lacks these fields drops them.
type ClusterFacts struct {
	// KubernetesVersion is the version of the cluster's API server, for instance "v1.35.1".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z.+_~/-]*$`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// Platform is the operating system and architecture of the API server, for instance "linux/amd64".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z.+_~/-]*$`
	Platform string `json:"platform,omitempty"`

	// Nodes is the number of nodes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes *int32 `json:"nodes,omitempty"`

	// ReadyNodes is the number of ready nodes, whether or not pods may be scheduled to them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyNodes *int32 `json:"readyNodes,omitempty"`

	// AgentVersion is the version of the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z.+_~/-]*$`
	AgentVersion string `json:"agentVersion,omitempty"`
}
