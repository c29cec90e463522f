package importing

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AgentInheritedMessage tells operators in the Cluster's conditions how to take over an inherited agent.
const AgentInheritedMessage = "the agent was deployed by Rancher Fleet and is left unchanged, settings included: " +
	"annotate the Cluster with " + fleet.AnnotationTakeOverAgent + "=true to move it to this hub's image, in place and with its identity"

// Inherited reports whether a Cluster's agent was deployed by Rancher Fleet. Such an agent stays unchanged, whatever
// the hub's configuration and the Cluster's settings say, until the operator takes it over. It is recognised by its
// Bundle: only Rancher Fleet stores there what it applied last.
func Inherited(cluster *fleet.Cluster, bundle *fleet.Bundle) bool {
	return AppliedElsewhere(bundle) && !NeverDeployed(cluster) && cluster.Annotations[fleet.AnnotationTakeOverAgent] != "true"
}

// AppliedElsewhere reports whether a Bundle was last written by Rancher Fleet. Nil was not found.
func AppliedElsewhere(bundle *fleet.Bundle) bool {
	if bundle == nil {
		return false
	}
	_, noted := bundle.Annotations[fleet.AnnotationSetApplied]
	return noted
}

// NeverDeployed reports whether a Cluster that names a kubeconfig has no agent yet. Rancher Fleet writes the Bundle of
// an agent before it deploys the agent.
func NeverDeployed(cluster *fleet.Cluster) bool {
	status := cluster.Status
	return cluster.Spec.KubeConfigSecret != "" && status.AgentDeployedGeneration == nil && status.Agent.LastSeen.IsZero()
}
