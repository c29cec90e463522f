package importing

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AgentInheritedMessage says what an operator can do about an inherited agent, in the conditions of its Cluster.
const AgentInheritedMessage = "the agent was deployed by another implementation and stays as it is, settings included: " +
	"annotate the Cluster with " + fleet.AnnotationTakeOverAgent + "=true to move it to this hub's image, in place and with its identity"

// Inherited says whether a Cluster's agent is another implementation's, which stays exactly as it is, whatever the
// hub's configuration and the Cluster's settings say, until the operator wants it taken over. Its Bundle shows it:
// only other implementations note in it what they last applied.
func Inherited(cluster *fleet.Cluster, bundle *fleet.Bundle) bool {
	return AppliedElsewhere(bundle) && !NeverDeployed(cluster) && cluster.Annotations[fleet.AnnotationTakeOverAgent] != "true"
}

// AppliedElsewhere says whether a Bundle was written by another implementation, and not by this one since. Nil was
// not found.
func AppliedElsewhere(bundle *fleet.Bundle) bool {
	if bundle == nil {
		return false
	}
	_, noted := bundle.Annotations[fleet.AnnotationSetApplied]
	return noted
}

// NeverDeployed says whether a Cluster that names a kubeconfig has no agent yet. Another implementation writes the
// Bundle of an agent before it deploys it.
func NeverDeployed(cluster *fleet.Cluster) bool {
	status := cluster.Status
	return cluster.Spec.KubeConfigSecret != "" && status.AgentDeployedGeneration == nil && status.Agent.LastSeen.IsZero()
}
