package node

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Uninitialized is the key of the taint of a Node that has no provider ID yet. DaemonSets create no pods for it.
const Uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Initialize returns the JSON merge patch of a Node that belongs to the machine with this provider ID, or nil if the Node
// needs no change. It returns an error if the Node has another provider ID, because that cannot change. The patch contains
// the resourceVersion, because it replaces the list of taints.
func Initialize(n *corev1.Node, providerID string) ([]byte, error) {
	if n.Spec.ProviderID != "" && n.Spec.ProviderID != providerID {
		return nil, fmt.Errorf("node %s has provider ID %.100q, want %q: delete the Node, so that the machine registers again", n.Name, n.Spec.ProviderID, providerID)
	}
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == Uninitialized })
	if n.Spec.ProviderID == providerID && len(taints) == len(n.Spec.Taints) {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"providerID": providerID, "taints": taints},
	})
}
