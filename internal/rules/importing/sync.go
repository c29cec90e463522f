package importing

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// BundleOwns reports whether the agent's Bundle owns the agent's Deployment and related objects: the Bundle exists for
// the agent's namespace, its target selects the Cluster, and the agent has reported since it was last deployed.
// Otherwise the import owns them, or the person who installed the agent. A nil Bundle was not found.
func BundleOwns(cluster *fleet.Cluster, bundle *fleet.Bundle, namespaces clusters.Namespaces) bool {
	return picksAgent(cluster, bundle, namespaces) && !cluster.Status.Agent.LastSeen.IsZero()
}

// picksAgent reports whether the Bundle deploys the Cluster's agent into the right namespace, as soon as the agent
// reports.
func picksAgent(cluster *fleet.Cluster, bundle *fleet.Bundle, namespaces clusters.Namespaces) bool {
	if bundle == nil || bundle.DeletionTimestamp != nil || bundle.Spec.DefaultNamespace != AgentNamespace(cluster, namespaces) {
		return false
	}
	_, freed := cluster.Labels[fleet.LabelNonManagedAgent]
	return !freed
}

// bundleOwns is BundleOwns for an agent that is not stale.
func bundleOwns(in Input) bool {
	return !in.Stale && BundleOwns(in.Cluster, in.Bundle, in.Namespaces)
}

// SchedulingApplied reports whether an agent's Deployment may use the PriorityClass of its Cluster: without the class,
// the API server would reject its pods. The import creates the class and records that in the status. For Clusters
// without a kubeconfig, the agent's Bundle contains the class.
func SchedulingApplied(cluster *fleet.Cluster) bool {
	custom := cluster.Spec.AgentSchedulingCustomization
	if cluster.Spec.KubeConfigSecret == "" || custom == nil || custom.PriorityClass == nil {
		return true
	}
	hash, err := statusHash(custom)
	return err == nil && cluster.Status.AgentSchedulingCustomizationHash == hash
}

// schedulingInBundle reports whether the agent's Bundle contains the PriorityClass and the PodDisruptionBudget, because no
// import has created them. If a kubeconfig is added later, the Bundle contains them until the first import. Only such a
// Cluster has their hash in its status before its first import.
func schedulingInBundle(cluster *fleet.Cluster) bool {
	status := cluster.Status
	return cluster.Spec.KubeConfigSecret == "" || status.AgentDeployedGeneration == nil && status.AgentSchedulingCustomizationHash != ""
}

// inSync reports whether the last import applied exactly what is wanted.
func inSync(in Input, want Status) bool {
	status := statusOf(in.Cluster)
	return sameCarried(status, want) && sameBeside(status, want) && atRest(in)
}

// carriedByBundle reports whether all changes reach the agent with its Bundle.
func carriedByBundle(in Input, want Status) bool {
	return bundleOwns(in) && sameBeside(statusOf(in.Cluster), want) && atRest(in)
}

// frozen reports whether a setting has changed that only the agent's Bundle can bring, while that Bundle is not
// updated. If the import applied it, the agent would undo it from its Bundle, even after it registers again.
func frozen(in Input, want Status) bool {
	managed := in.Config.ManageAgent == nil || *in.Config.ManageAgent
	follows := !in.Stale && in.Cluster.Status.AgentDeployedGeneration != nil && picksAgent(in.Cluster, in.Bundle, in.Namespaces)
	return !managed && follows && !sameCarried(statusOf(in.Cluster), want)
}

// withoutCarried returns the wanted status with the last recorded values for the settings that the agent's Bundle
// carries.
func withoutCarried(in Input, want Status) Status {
	noted := statusOf(in.Cluster)
	want.AgentEnvVarsHash, want.AgentAffinityHash = noted.AgentEnvVarsHash, noted.AgentAffinityHash
	want.AgentResourcesHash, want.AgentTolerationsHash = noted.AgentResourcesHash, noted.AgentTolerationsHash
	want.AgentPrivateRepoURL, want.AgentHostNetwork = noted.AgentPrivateRepoURL, noted.AgentHostNetwork
	return want
}

// atRest reports whether no import was requested by flag, generation or move.
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

// moved reports whether the agent has to leave its namespace. The import does not record the system namespace when the
// Cluster sets no namespace of its own; then the namespace is only known from heartbeats.
func moved(in Input) bool {
	wanted, seen := in.Cluster.Spec.AgentNamespace, in.Cluster.Status.Agent.Namespace
	return seen != wanted && (wanted != "" || seen != in.Namespaces.System)
}

// AgentNamespace returns the namespace for a Cluster's agent.
func AgentNamespace(cluster *fleet.Cluster, namespaces clusters.Namespaces) string {
	if cluster.Spec.AgentNamespace != "" {
		return cluster.Spec.AgentNamespace
	}
	return namespaces.System
}

func sameAddress(a, b Status) bool {
	return sameURL(a.APIServerURL, b.APIServerURL) && a.APIServerCAHash == b.APIServerCAHash
}

// sameBeside compares the fields that an agent's Bundle does not carry.
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

// sameCarried compares the fields that an agent's Bundle carries.
func sameCarried(a, b Status) bool {
	return a.AgentEnvVarsHash == b.AgentEnvVarsHash && a.AgentAffinityHash == b.AgentAffinityHash &&
		a.AgentResourcesHash == b.AgentResourcesHash && a.AgentTolerationsHash == b.AgentTolerationsHash &&
		sameURL(a.AgentPrivateRepoURL, b.AgentPrivateRepoURL) && a.AgentHostNetwork == b.AgentHostNetwork
}

// sameURL compares URLs after cutting them to the length that a status may have.
func sameURL(a, b string) bool { return cut.Text(a, fleet.MaxURL) == cut.Text(b, fleet.MaxURL) }

// AgentInheritedMessage tells operators in the Cluster's conditions how to take over an inherited agent.
const AgentInheritedMessage = "the agent was deployed by Rancher Fleet and is left unchanged, settings included: " +
	"annotate the Cluster with " + annotation.TakeOverAgent + "=true to move it to this hub's image, in place and with its identity"

// Inherited reports whether a Cluster's agent was deployed by Rancher Fleet. Such an agent stays unchanged, whatever
// the hub's configuration and the Cluster's settings say, until the operator takes it over. It is recognised by its
// Bundle: only Rancher Fleet stores there what it applied last. The requests are the Cluster's ClusterRegistrations.
func Inherited(cluster *fleet.Cluster, bundle *fleet.Bundle, requests []*fleet.ClusterRegistration) bool {
	return AppliedElsewhere(bundle) && !NeverDeployed(cluster, requests) && cluster.Annotations[annotation.TakeOverAgent] != "true"
}

// AppliedElsewhere reports whether a Bundle was last written by Rancher Fleet. Nil was not found.
func AppliedElsewhere(bundle *fleet.Bundle) bool {
	if bundle == nil {
		return false
	}
	_, noted := bundle.Annotations[fleet.AnnotationSetApplied]
	return noted
}

// NeverDeployed reports whether a Cluster has no agent yet, because none was deployed with its kubeconfig, or none has
// joined it without a kubeconfig. Rancher Fleet writes the Bundle of an agent for every Cluster, with or without an agent.
func NeverDeployed(cluster *fleet.Cluster, requests []*fleet.ClusterRegistration) bool {
	status := cluster.Status
	if status.AgentDeployedGeneration != nil || !status.Agent.LastSeen.IsZero() {
		return false
	}
	isGranted := func(request *fleet.ClusterRegistration) bool { return request.Status.Granted }
	return cluster.Spec.KubeConfigSecret != "" || !slices.ContainsFunc(requests, isGranted)
}
