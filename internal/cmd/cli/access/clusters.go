package access

import (
	"context"

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

func patchCluster(ctx context.Context, hub *Cluster, cluster *fleet.Cluster, fields map[string]any) error {
	_, err := Patch(ctx, hub.Clusters(cluster.Namespace), cluster.Name, fields)
	return Explain("changing Cluster "+cluster.Namespace+"/"+cluster.Name, err)
}
