package importing

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Status are the fields of a Cluster's status that an import owns.
type Status struct {
	AgentDeployedGeneration          *int64
	Migrated                         bool
	APIServerURL, APIServerCAHash    string
	AgentTLSMode                     string
	GarbageCollectionInterval        *metav1.Duration
	AgentEnvVarsHash                 string
	AgentAffinityHash                string
	AgentResourcesHash               string
	AgentTolerationsHash             string
	AgentSchedulingCustomizationHash string
	AgentPrivateRepoURL              string
	AgentHostNetwork                 bool
	// PullSecrets tells the versions of the pull secrets that went with the agent; "" for none. It is kept in the
	// Cluster's annotation AnnotationPullSecrets, for want of a field.
	PullSecrets string
	// ResetAgent replaces status.agent by AgentNamespace and no heartbeat.
	ResetAgent     bool
	AgentNamespace string
}

// statusOf is what the last import noted.
func statusOf(cluster *fleet.Cluster) Status {
	status := cluster.Status
	return Status{
		AgentDeployedGeneration: status.AgentDeployedGeneration, Migrated: status.AgentMigrated,
		APIServerURL: status.APIServerURL, APIServerCAHash: status.APIServerCAHash,
		AgentTLSMode: status.AgentTLSMode, GarbageCollectionInterval: status.GarbageCollectionInterval,
		AgentEnvVarsHash: status.AgentEnvVarsHash, AgentAffinityHash: status.AgentAffinityHash,
		AgentResourcesHash: status.AgentResourcesHash, AgentTolerationsHash: status.AgentTolerationsHash,
		AgentSchedulingCustomizationHash: status.AgentSchedulingCustomizationHash,
		AgentPrivateRepoURL:              status.AgentPrivateRepoURL, AgentHostNetwork: status.AgentHostNetwork,
		PullSecrets: cluster.Annotations[fleet.AnnotationPullSecrets],
	}
}

// noteSettings is for a Cluster whose agent comes by itself: its settings reach it with its Bundle, and its status
// tells which they are as that of any other Cluster.
func noteSettings(cluster *fleet.Cluster, want Status) Outcome {
	known := statusOf(cluster)
	if sameCarried(known, want) && known.AgentSchedulingCustomizationHash == want.AgentSchedulingCustomizationHash {
		return Outcome{Stage: None}
	}
	return Outcome{Stage: Noted, Done: want}
}
