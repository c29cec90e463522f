package importing

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Status holds the fields of a Cluster's status that the import owns.
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
	// PullSecrets lists the versions of the copied pull Secrets, "" if none were copied. The CRD has no field for it,
	// so it is stored in the Cluster's annotation annotation.PullSecrets.
	PullSecrets string
	// ResetAgent resets status.agent to AgentNamespace, without a heartbeat.
	ResetAgent     bool
	AgentNamespace string
}

// statusOf returns the status that the last import wrote.
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
		PullSecrets: cluster.Annotations[annotation.PullSecrets],
	}
}

// noteSettings returns the outcome for a Cluster whose agent is installed by hand. The agent gets its settings with
// its Bundle, and the Cluster's status shows them as for any other Cluster.
func noteSettings(cluster *fleet.Cluster, want Status) Outcome {
	known := statusOf(cluster)
	if sameCarried(known, want) && known.AgentSchedulingCustomizationHash == want.AgentSchedulingCustomizationHash {
		return Outcome{Stage: None}
	}
	return Outcome{Stage: Noted, Done: want}
}
