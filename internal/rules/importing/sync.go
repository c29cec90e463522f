package importing

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// BundleOwns says whether the agent's Bundle owns the agent's Deployment and what goes with it: it is there, it is for
// the namespace the agent belongs in, its target picks the Cluster, and the agent was heard of since it was deployed
// last. Until then, and where there is none, they are the import's, or of whoever installed the agent. Nil was not
// found.
func BundleOwns(cluster *fleet.Cluster, bundle *fleet.Bundle, namespaces clusters.Namespaces) bool {
	return picksAgent(cluster, bundle, namespaces) && !cluster.Status.Agent.LastSeen.IsZero()
}

// picksAgent reports whether the Bundle deploys the Cluster's agent where it belongs, as soon as the agent reports.
func picksAgent(cluster *fleet.Cluster, bundle *fleet.Bundle, namespaces clusters.Namespaces) bool {
	if bundle == nil || bundle.DeletionTimestamp != nil || bundle.Spec.DefaultNamespace != AgentNamespace(cluster, namespaces) {
		return false
	}
	_, freed := cluster.Labels[fleet.LabelNonManagedAgent]
	return !freed
}

// bundleOwns is BundleOwns for an agent that is there to follow its Bundle.
func bundleOwns(in Input) bool {
	return !in.Stale && BundleOwns(in.Cluster, in.Bundle, in.Namespaces)
}

// SchedulingApplied says whether an agent's Deployment may name the PriorityClass its Cluster asks for: without the
// class its pods would be refused. The import brings it, and notes that it has. To clusters without a kubeconfig
// nobody brings it but who installs the agent.
func SchedulingApplied(cluster *fleet.Cluster) bool {
	custom := cluster.Spec.AgentSchedulingCustomization
	if cluster.Spec.KubeConfigSecret == "" || custom == nil || custom.PriorityClass == nil {
		return true
	}
	hash, err := statusHash(custom)
	return err == nil && cluster.Status.AgentSchedulingCustomizationHash == hash
}

// inSync says whether the last import left exactly what is wanted.
func inSync(in Input, want Status) bool {
	status := statusOf(in.Cluster)
	return sameCarried(status, want) && sameBeside(status, want) && atRest(in)
}

// carriedByBundle says whether nothing has changed but what the agent's Bundle brings to it.
func carriedByBundle(in Input, want Status) bool {
	return bundleOwns(in) && sameBeside(statusOf(in.Cluster), want) && atRest(in)
}

// frozen reports whether something has changed that the agent's Bundle would have to bring, and that Bundle stays as it
// is. What the import did would be undone by the agent, also by one that registers again.
func frozen(in Input, want Status) bool {
	managed := in.Config.ManageAgent == nil || *in.Config.ManageAgent
	follows := !in.Stale && in.Cluster.Status.AgentDeployedGeneration != nil && picksAgent(in.Cluster, in.Bundle, in.Namespaces)
	return !managed && follows && !sameCarried(statusOf(in.Cluster), want)
}

// withoutCarried is the wanted status with the settings that the agent's Bundle carries as they were noted last.
func withoutCarried(in Input, want Status) Status {
	noted := statusOf(in.Cluster)
	want.AgentEnvVarsHash, want.AgentAffinityHash = noted.AgentEnvVarsHash, noted.AgentAffinityHash
	want.AgentResourcesHash, want.AgentTolerationsHash = noted.AgentResourcesHash, noted.AgentTolerationsHash
	want.AgentPrivateRepoURL, want.AgentHostNetwork = noted.AgentPrivateRepoURL, noted.AgentHostNetwork
	return want
}

// atRest says whether nobody asks for an import: no flag, no generation, no move.
func atRest(in Input) bool {
	status := in.Cluster.Status
	switch {
	case status.AgentConfigChanged, !status.AgentMigrated, !status.CattleNamespaceMigrated, !status.AgentNamespaceMigrated:
		return false
	case status.AgentDeployedGeneration == nil, *status.AgentDeployedGeneration != in.Cluster.Spec.RedeployAgentGeneration:
		return false
	}
	return !moved(in)
}

// moved says whether the agent has to leave its namespace. An import without a namespace of the Cluster's own notes
// none either, so that one is only known from the agent's heartbeats.
func moved(in Input) bool {
	wanted, seen := in.Cluster.Spec.AgentNamespace, in.Cluster.Status.Agent.Namespace
	return seen != wanted && (wanted != "" || seen != in.Namespaces.System)
}

// AgentNamespace is where a Cluster's agent belongs.
func AgentNamespace(cluster *fleet.Cluster, namespaces clusters.Namespaces) string {
	if cluster.Spec.AgentNamespace != "" {
		return cluster.Spec.AgentNamespace
	}
	return namespaces.System
}

func sameAddress(a, b Status) bool {
	return sameURL(a.APIServerURL, b.APIServerURL) && a.APIServerCAHash == b.APIServerCAHash
}

// sameBeside compares what an agent's Bundle does not carry.
func sameBeside(a, b Status) bool {
	interval := func(d *metav1.Duration) time.Duration {
		if d == nil {
			return 0
		}
		return d.Duration
	}
	return sameAddress(a, b) && a.AgentTLSMode == b.AgentTLSMode &&
		interval(a.GarbageCollectionInterval) == interval(b.GarbageCollectionInterval) &&
		a.AgentSchedulingCustomizationHash == b.AgentSchedulingCustomizationHash &&
		a.PullSecrets == b.PullSecrets
}

// sameCarried compares what an agent's Bundle carries.
func sameCarried(a, b Status) bool {
	return a.AgentEnvVarsHash == b.AgentEnvVarsHash && a.AgentAffinityHash == b.AgentAffinityHash &&
		a.AgentResourcesHash == b.AgentResourcesHash && a.AgentTolerationsHash == b.AgentTolerationsHash &&
		sameURL(a.AgentPrivateRepoURL, b.AgentPrivateRepoURL) && a.AgentHostNetwork == b.AgentHostNetwork
}

// sameURL compares URLs as far as a status has room for them.
func sameURL(a, b string) bool { return cut.Text(a, fleet.MaxURL) == cut.Text(b, fleet.MaxURL) }
