package access

import (
	"context"
	"math"

	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AddLabels gives labels to a Cluster that does not have them.
func AddLabels(ctx context.Context, hub *Cluster, cluster *fleet.Cluster, added map[string]string) error {
	if labels.SelectorFromSet(added).Matches(labels.Set(cluster.Labels)) {
		return nil
	}
	return patchCluster(ctx, hub, cluster, map[string]any{"metadata": map[string]any{"uid": cluster.UID, "labels": added}})
}

// Reinstall makes the hub install the agent of an imported Cluster again, at once.
func Reinstall(ctx context.Context, hub *Cluster, cluster *fleet.Cluster) error {
	return patchCluster(ctx, hub, cluster, map[string]any{
		"metadata": map[string]any{"uid": cluster.UID}, "spec": map[string]any{"redeployAgentGeneration": NextGeneration(cluster)},
	})
}

// NextGeneration returns a spec.redeployAgentGeneration that differs from the last one.
func NextGeneration(cluster *fleet.Cluster) int64 {
	if cluster.Spec.RedeployAgentGeneration == math.MaxInt64 {
		return 1
	}
	return cluster.Spec.RedeployAgentGeneration + 1
}

func patchCluster(ctx context.Context, hub *Cluster, cluster *fleet.Cluster, fields map[string]any) error {
	_, err := Patch(ctx, hub.Clusters(cluster.Namespace), cluster.Name, fields)
	return Explain("changing Cluster "+cluster.Namespace+"/"+cluster.Name, err)
}
