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
	// Conditions: Processed, Imported, Reconciled and Ready, and those this implementation adds.
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// Namespace is the cluster's own namespace in the upstream cluster, where its BundleDeployments live.
	Namespace string `json:"namespace,omitempty"`

	// Summary counts the cluster's bundles by state.
	// +structType=atomic
	Summary BundleSummary `json:"summary,omitempty"`

	// ResourceCounts counts the deployed resources of the cluster by state.
	// +structType=atomic
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`

	// ReadyGitRepos is the number of GitRepos whose deployments here are ready.
	ReadyGitRepos int `json:"readyGitRepos"`

	// DesiredReadyGitRepos is the number of GitRepos deploying to this cluster.
	DesiredReadyGitRepos int `json:"desiredReadyGitRepos"`

	// ReadyHelmOps is the number of HelmOps whose deployments here are ready.
	ReadyHelmOps int `json:"readyHelmOps"`

	// DesiredReadyHelmOps is the number of HelmOps deploying to this cluster.
	DesiredReadyHelmOps int `json:"desiredReadyHelmOps"`

	// AgentEnvVarsHash detects changes of spec.agentEnvVars. Empty if the field is empty.
	// +nullable
	AgentEnvVarsHash string `json:"agentEnvVarsHash,omitempty"`

	// AgentPrivateRepoURL is the spec.privateRepoURL last seen.
	// +nullable
	AgentPrivateRepoURL string `json:"agentPrivateRepoURL,omitempty"`

	// AgentHostNetwork is the spec.hostNetwork last seen.
	// +nullable
	AgentHostNetwork bool `json:"agentHostNetwork,omitempty"`

	// AgentDeployedGeneration is the spec.redeployAgentGeneration of the last import; absent before the first.
	// +nullable
	AgentDeployedGeneration *int64 `json:"agentDeployedGeneration,omitempty"`

	// AgentMigrated is true after an import. False or absent triggers an import.
	AgentMigrated bool `json:"agentMigrated,omitempty"`

	// AgentNamespaceMigrated is true after an import. False or absent triggers an import.
	AgentNamespaceMigrated bool `json:"agentNamespaceMigrated,omitempty"`

	// CattleNamespaceMigrated is true after an import. False or absent triggers an import.
	CattleNamespaceMigrated bool `json:"cattleNamespaceMigrated,omitempty"`

	// AgentAffinityHash detects changes of spec.agentAffinity. Empty if the field is empty.
	AgentAffinityHash string `json:"agentAffinityHash,omitempty"`

	// AgentResourcesHash detects changes of spec.agentResources. Empty if the field is empty.
	// +nullable
	AgentResourcesHash string `json:"agentResourcesHash,omitempty"`

	// AgentTolerationsHash detects changes of spec.agentTolerations. Empty if the field is empty.
	// +nullable
	AgentTolerationsHash string `json:"agentTolerationsHash,omitempty"`

	// AgentSchedulingCustomizationHash detects changes of spec.agentSchedulingCustomization. Empty if the field is
	// empty.
	AgentSchedulingCustomizationHash string `json:"agentSchedulingCustomizationHash,omitempty"`

	// AgentConfigChanged triggers another import. A successful import clears it.
	AgentConfigChanged bool `json:"agentConfigChanged,omitempty"`

	// APIServerURL is the upstream URL given to the agent by the last import.
	// +nullable
	APIServerURL string `json:"apiServerURL,omitempty"`

	// APIServerCAHash is the hash of the CA given to the agent by the last import.
	// +nullable
	APIServerCAHash string `json:"apiServerCAHash,omitempty"`

	// AgentTLSMode is the TLS mode of the last import: strict or system-store.
	// +nullable
	AgentTLSMode string `json:"agentTLSMode,omitempty"`

	// GarbageCollectionInterval is the interval at which the agent looks for releases without a BundleDeployment, as
	// set by the last import.
	GarbageCollectionInterval *metav1.Duration `json:"garbageCollectionInterval,omitempty"`

	// Display holds texts for printer columns.
	// +structType=atomic
	Display ClusterDisplay `json:"display,omitempty"`

	// Agent contains the agent's last heartbeat and the facts it reports about its cluster. The agent writes it.
	Agent AgentStatus `json:"agent,omitempty"`

	// Scheduled is true when a Schedule covers this cluster.
	Scheduled bool `json:"scheduled,omitempty"`

	// ActiveSchedule is true while a Schedule that covers this cluster allows updates.
	ActiveSchedule bool `json:"activeSchedule,omitempty"`
}

// ClusterDisplay holds texts for printer columns.
type ClusterDisplay struct {
	// ReadyBundles is "<ready>/<all>".
	ReadyBundles string `json:"readyBundles,omitempty"`

	// State is the worst state of the cluster's bundles, or WaitCheckIn before the
	// first heartbeat and while the agent is silent; empty when all are ready.
	// +nullable
	State string `json:"state,omitempty"`
}

// AgentStatus contains the agent's last heartbeat and the facts it reports about its cluster.
type AgentStatus struct {
	// LastSeen is the time of the last heartbeat, by the agent's clock; null before the first.
	// +nullable
	LastSeen metav1.Time `json:"lastSeen"`

	// Namespace is where the agent runs downstream.
	// +nullable
	Namespace string `json:"namespace"`

	// CredentialExpires is when the agent's credential expires; absent if it does not.
	CredentialExpires *metav1.Time `json:"credentialExpires,omitempty"`

	// RecoveryKey is the agent's public key. The hub pins it if the Cluster has no key yet.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]*$`
	RecoveryKey string `json:"recoveryKey,omitempty"`

	// RecoveryTicket tells which recovery data the agent has: the time of its
	// ticket and a hash. If they are outdated, the hub offers newer ones.
	// +kubebuilder:validation:MaxLength=128
	RecoveryTicket string `json:"recoveryTicket,omitempty"`

	// HubSerial is the serial of the last hub document that the agent stored; absent before the first.
	// +kubebuilder:validation:Minimum=0
	HubSerial int64 `json:"hubSerial,omitempty"`

	ClusterFacts `json:",inline"`
}

// ClusterFacts contains what an agent reports about its cluster and itself. It is only informational: no
// decision depends on it. Facts that an agent does not know, or may not read, are absent. An API server whose
// CRD lacks these fields drops them.
type ClusterFacts struct {
	// KubernetesVersion is the version of the cluster's API server, for instance "v1.35.1".
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z.+_~/-]*$`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// Platform is the operating system and architecture of the API server, for instance "linux/amd64".
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z.+_~/-]*$`
	Platform string `json:"platform,omitempty"`

	// Nodes is the number of nodes.
	// +kubebuilder:validation:Minimum=0
	Nodes *int32 `json:"nodes,omitempty"`

	// ReadyNodes is the number of ready nodes, whether or not pods may be scheduled to them.
	// +kubebuilder:validation:Minimum=0
	ReadyNodes *int32 `json:"readyNodes,omitempty"`

	// AgentVersion is the version of the agent.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z.+_~/-]*$`
	AgentVersion string `json:"agentVersion,omitempty"`
}
