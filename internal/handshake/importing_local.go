package handshake

import (
	"slices"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// IsLocal says whether a Cluster is the hub's own.
func IsLocal(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	return cluster.Name == names.LocalCluster && bootstrap.Enabled() && cluster.Namespace == bootstrap.Namespace
}

// InBootstrapWorkspace reports whether a Cluster is of the workspace in which the hub registers itself. Only there may
// a kubeconfig lead to the hub's own cluster.
func InBootstrapWorkspace(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	if !bootstrap.Enabled() {
		return cluster.Namespace == names.LocalWorkspace
	}
	return cluster.Namespace == bootstrap.Namespace
}

// AgentRemoval is an agent to be taken away.
type AgentRemoval struct {
	// Kubeconfig is nil if there is nothing to reach it with: then only the status is cleared.
	Kubeconfig []byte
	TLSMode    string
	Namespace  string
}

func disable(in ImportInput) ImportOutcome {
	status := in.Cluster.Status
	if status.Agent.Namespace == "" && status.AgentDeployedGeneration == nil {
		return ImportOutcome{Stage: ImportDisabled}
	}
	remove := &AgentRemoval{TLSMode: in.Config.AgentTLSMode, Namespace: status.Agent.Namespace}
	if remove.Namespace == "" {
		remove.Namespace = in.Namespaces.System
	}
	if refused, _ := KubeconfigRefused(in.Cluster, in.Kubeconfig, in.Config); in.Kubeconfig != nil && refused == "" {
		remove.Kubeconfig = slices.Clone(in.Kubeconfig.Data[KubeconfigValueKey])
	}
	done := statusOf(in.Cluster)
	done.AgentDeployedGeneration, done.ResetAgent = nil, true
	return ImportOutcome{Stage: ImportMustRemove, Remove: remove, Done: done}
}
