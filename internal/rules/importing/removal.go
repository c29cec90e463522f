package importing

import (
	"slices"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// AgentRemoval describes an agent to be removed.
type AgentRemoval struct {
	// Kubeconfig is nil if the cluster cannot be reached. Then only the status is cleared.
	Kubeconfig []byte
	TLSMode    string
	Namespace  string
}

func disable(in Input) Outcome {
	status := in.Cluster.Status
	if status.Agent.Namespace == "" && status.AgentDeployedGeneration == nil {
		return Outcome{Stage: Disabled}
	}
	remove := &AgentRemoval{TLSMode: in.Config.AgentTLSMode, Namespace: status.Agent.Namespace}
	if remove.Namespace == "" {
		remove.Namespace = in.Namespaces.System
	}
	if refused, _ := KubeconfigRefused(in.Cluster, in.Kubeconfig, in.Config); in.Kubeconfig != nil && refused == "" {
		remove.Kubeconfig = slices.Clone(in.Kubeconfig.Data[protocol.KubeconfigValueKey])
	}
	done := statusOf(in.Cluster)
	done.AgentDeployedGeneration, done.ResetAgent = nil, true
	return Outcome{Stage: MustRemove, Remove: remove, Done: done}
}
