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
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// stage describes how a Cluster's agent is managed.
type stage string

const (
	// unmanaged means that no agent is managed by a Bundle (manageAgent is false). Existing Bundles stay as they are.
	unmanaged stage = "Unmanaged"
	// unwanted means that the Cluster is being deleted, belongs to another manager, or is the hub's own with its
	// agent disabled: there must be no Bundle.
	unwanted stage = "Unwanted"
	// elsewhere means that the agent does not run in its configured namespace: a Bundle would create a second agent
	// there, without an identity. The Bundle is created after the agent has moved.
	elsewhere stage = "Elsewhere"
	// awaitingAgent means that no heartbeat has arrived since the agent was first deployed: its objects still belong
	// to the import, or to the administrator who installed it.
	awaitingAgent stage = "AwaitingAgent"
	// awaitingImport means that the agent's PriorityClass does not exist yet: without it, the pods of a Deployment
	// that names it would be refused. An existing Bundle stays as it is until the import has created the class.
	awaitingImport stage = "AwaitingImport"
	// inherited means that Rancher Fleet deployed the agent and wrote its Bundle. Both stay exactly as they are until
	// the operator requests the takeover.
	inherited stage = "Inherited"
	// managed means that the Bundle owns the agent's objects.
	managed stage = "Managed"
)

// input describes the observed state of a Cluster. A nil object does not exist.
type input struct {
	cluster *fleet.Cluster
	// workspace is the Cluster's namespace.
	workspace *corev1.Namespace
	// bundle is the agent's Bundle.
	bundle *fleet.Bundle
	// requests are the ClusterRegistrations that name the Cluster in their status.
	requests   []*fleet.ClusterRegistration
	config     config.Config
	defaults   importing.AgentDefaults
	namespaces clusters.Namespaces
}

// outcome describes what to do about a Cluster's agent.
type outcome struct {
	stage stage
	// remove means that there must be no Bundle.
	remove bool
	// values are the agent's settings, if it is managed.
	values importing.AgentValues
	// reason and message explain why the agent is not managed, if the operator can do something about it.
	reason, message string
}

// decide returns how a Cluster's agent is managed now.
func decide(in input) outcome {
	switch {
	case isLeaving(in):
		return outcome{stage: unwanted, remove: true}
	case in.config.ManageAgent != nil && !*in.config.ManageAgent:
		return outcome{stage: unmanaged}
	case notOurs(in):
		return outcome{stage: unwanted, remove: true}
	case importing.Inherited(in.cluster, in.bundle, in.requests):
		return outcome{stage: inherited, reason: conditions.ReasonAgentInherited, message: importing.AgentInheritedMessage}
	case importing.AppliedElsewhere(in.bundle) && importing.NeverDeployed(in.cluster, in.requests):
		return outcome{stage: awaitingAgent, remove: true} // the Bundle would replace the agent that is about to join
	}
	return whereTheAgentIs(in, importing.AgentSettings(in.cluster, in.config, in.defaults, in.namespaces))
}

// isLeaving reports whether the Cluster or its workspace is being deleted.
func isLeaving(in input) bool {
	return in.cluster.DeletionTimestamp != nil || in.workspace == nil || in.workspace.DeletionTimestamp != nil
}

// notOurs reports whether another manager owns the Cluster, or whether it is the hub's own without an agent.
func notOurs(in input) bool {
	disabled := in.config.Bootstrap.LocalAgentDisabled && clusters.IsLocal(in.cluster, in.config.Bootstrap)
	return disabled || in.cluster.Labels[fleet.LabelClusterManagement] != ""
}

// whereTheAgentIs compares the namespace that the agent reported with the one in its settings.
func whereTheAgentIs(in input, values importing.AgentValues) outcome {
	agent := in.cluster.Status.Agent
	switch {
	case agent.Namespace != "" && agent.Namespace != values.Namespace:
		return outcome{
			stage: elsewhere, remove: true, reason: conditions.ReasonAgentElsewhere,
			message: fmt.Sprintf("the agent runs in namespace %q, but the hub would manage it in %q: set spec.agentNamespace of the Cluster to the namespace of the agent; or reinstall the agent: raise spec.redeployAgentGeneration (imported), or run helm install (joined with a token)", agent.Namespace, values.Namespace),
		}
	case agent.LastSeen.IsZero() && in.bundle != nil && in.bundle.Spec.DefaultNamespace != values.Namespace:
		return outcome{stage: elsewhere, remove: true} // it is moving to the other namespace
	case agent.LastSeen.IsZero() && in.bundle == nil:
		return outcome{stage: awaitingAgent}
	case !importing.SchedulingApplied(in.cluster):
		return outcome{stage: awaitingImport}
	}
	// Also while an agent that had a Bundle before is deployed again: otherwise it would apply the old Bundle at
	// startup.
	return outcome{stage: managed, values: values}
}

// bundle returns the Bundle of a Cluster's agent without the marks of its set. Whether the target matches depends on
// a label of the Cluster, which can change without a change of the Bundle.
func bundle(cluster *fleet.Cluster, agentNamespace string, manifest []byte) *fleet.Bundle {
	meta := bundleMeta(cluster.Namespace, cluster.Name)
	meta.Finalizers = []string{fleet.FinalizerBundle} // added to every Bundle anyway, at the latest when it is targeted
	return &fleet.Bundle{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Bundle"},
		ObjectMeta: meta,
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				DefaultNamespace: agentNamespace,
				// The objects already exist: they belong to an import or to a release of charts/fleet-agent.
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
