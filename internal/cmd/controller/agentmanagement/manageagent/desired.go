package manageagent

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// stage says who looks after a Cluster's agent.
type stage string

const (
	// unmanaged means that no agent is managed by a Bundle (manageAgent is false): Bundles there are stay as they are.
	unmanaged stage = "Unmanaged"
	// unwanted means that the Cluster is going, is another manager's, or is the hub's own with its agent disabled:
	// there is no Bundle.
	unwanted stage = "Unwanted"
	// elsewhere means that the agent is not, or no longer, in the namespace it belongs in: a Bundle would put a
	// second one there, without an identity. There is none until the agent has moved.
	elsewhere stage = "Elsewhere"
	// awaitingAgent means that no heartbeat was heard since the agent was first deployed: its objects are still the
	// import's, or of whoever installed it.
	awaitingAgent stage = "AwaitingAgent"
	// awaitingImport means that the PriorityClass the agent is to have is not there yet: without it the pods of a
	// Deployment that names it would be refused. A Bundle that is there stays as it is until the import has brought it.
	awaitingImport stage = "AwaitingImport"
	// inherited means that another implementation deployed the agent and wrote its Bundle. Both stay exactly as they
	// are until the operator wants the agent taken over.
	inherited stage = "Inherited"
	// managed means that the Bundle owns the agent's objects.
	managed stage = "Managed"
)

// input is what was found about a Cluster. A nil object was not found.
type input struct {
	cluster *fleet.Cluster
	// workspace is the Cluster's namespace.
	workspace *corev1.Namespace
	// bundle is the agent's Bundle.
	bundle     *fleet.Bundle
	config     config.Config
	defaults   importing.AgentDefaults
	namespaces clusters.Namespaces
}

// outcome is what a Cluster's agent is owed now.
type outcome struct {
	stage stage
	// remove says that there must be no Bundle.
	remove bool
	// values are what the agent is deployed with, if it is managed.
	values importing.AgentValues
	// reason and message say why the agent is not managed, if somebody can do something about it.
	reason, message string
}

// decide says who looks after a Cluster's agent now.
func decide(in input) outcome {
	switch {
	case isLeaving(in):
		return outcome{stage: unwanted, remove: true}
	case in.config.ManageAgent != nil && !*in.config.ManageAgent:
		return outcome{stage: unmanaged}
	case notOurs(in):
		return outcome{stage: unwanted, remove: true}
	case importing.Inherited(in.cluster, in.bundle):
		return outcome{stage: inherited, reason: fleet.ReasonAgentInherited, message: importing.AgentInheritedMessage}
	case importing.AppliedElsewhere(in.bundle) && importing.NeverDeployed(in.cluster):
		return outcome{stage: awaitingAgent, remove: true} // it would undo what the import is about to deploy
	}
	return whereTheAgentIs(in, importing.AgentSettings(in.cluster, in.config, in.defaults, in.namespaces))
}

// isLeaving is true when the Cluster or its workspace goes.
func isLeaving(in input) bool {
	return in.cluster.DeletionTimestamp != nil || in.workspace == nil || in.workspace.DeletionTimestamp != nil
}

// notOurs is true when another manager owns the Cluster, or it is the hub's own and has no agent.
func notOurs(in input) bool {
	disabled := in.config.Bootstrap.LocalAgentDisabled && clusters.IsLocal(in.cluster, in.config.Bootstrap)
	return disabled || in.cluster.Labels[fleet.LabelClusterManagement] != ""
}

// whereTheAgentIs compares where the agent was heard from with where its values put it.
func whereTheAgentIs(in input, values importing.AgentValues) outcome {
	agent := in.cluster.Status.Agent
	switch {
	case agent.Namespace != "" && agent.Namespace != values.Namespace:
		return outcome{
			stage: elsewhere, remove: true, reason: fleet.ReasonAgentElsewhere,
			message: fmt.Sprintf("the agent runs in namespace %q and would be managed in %q: set spec.agentNamespace to where it is, or deploy it anew by another spec.redeployAgentGeneration or `helm install`", agent.Namespace, values.Namespace),
		}
	case agent.LastSeen.IsZero() && in.bundle != nil && in.bundle.Spec.DefaultNamespace != values.Namespace:
		return outcome{stage: elsewhere, remove: true} // it is on its way to the other namespace
	case agent.LastSeen.IsZero() && in.bundle == nil:
		return outcome{stage: awaitingAgent}
	case !importing.SchedulingApplied(in.cluster):
		return outcome{stage: awaitingImport}
	}
	// Also while an agent is deployed anew that had a Bundle before: it would go by the old one when it starts.
	return outcome{stage: managed, values: values}
}

// bundle is the Bundle of a Cluster's agent, complete but for the marks of its set. Whether its target picks the
// Cluster is up to a label of the Cluster, which may come and go without a change of the Bundle.
func bundle(cluster *fleet.Cluster, agentNamespace string, manifest []byte) *fleet.Bundle {
	meta := bundleMeta(cluster.Namespace, cluster.Name)
	meta.Finalizers = []string{fleet.FinalizerBundle} // which every Bundle gets, at the latest when it is targeted
	return &fleet.Bundle{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Bundle"},
		ObjectMeta: meta,
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				DefaultNamespace: agentNamespace,
				// The objects are there already: an import's, or those of a release of charts/fleet-agent.
				Helm: &fleet.HelmOptions{TakeOwnership: true},
			},
			Resources: []fleet.BundleResource{{Name: agentchart.ManifestName, Content: string(manifest)}},
			Targets: []fleet.BundleTarget{{
				ClusterName: cluster.Name,
				ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: fleet.LabelNonManagedAgent, Operator: metav1.LabelSelectorOpDoesNotExist},
				}},
			}},
		},
	}
}

func bundleMeta(workspace, cluster string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: workspace, Name: names.AgentBundle(cluster)}
}
