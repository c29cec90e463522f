package importing

// AgentRemoval describes an agent to be removed.
type AgentRemoval struct {
	// StatusOnly means that there is no kubeconfig that the Cluster may use: only the status is cleared.
	StatusOnly bool
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
	refused, _ := KubeconfigRefused(in.Cluster, in.Kubeconfig, in.Config)
	remove.StatusOnly = in.Kubeconfig == nil || refused != ""
	done := statusOf(in.Cluster)
	done.AgentDeployedGeneration, done.ResetAgent = nil, true
	return Outcome{Stage: MustRemove, Remove: remove, Done: done}
}
