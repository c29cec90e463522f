package manageagent

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watchBundles enqueues the Cluster of an agent's Bundle that is added, changed or deleted, so that the Bundle is
// repaired, or removed if it is no longer wanted. Changes of the status, by far the most frequent, are skipped. Call
// it before the informer starts.
func watchBundles(informer cache.SharedIndexInformer, enqueue func(types.NamespacedName)) error {
	return reconcile.WatchChanges(informer, func(change reconcile.Change[*fleet.Bundle]) {
		if change.Old != nil && change.New != nil && !matters(change.Old, change.New) {
			return
		}
		for _, bundle := range []*fleet.Bundle{change.Old, change.New} { // perhaps only the old state names the Cluster
			if cluster, known := clusterOf(bundle); known {
				enqueue(cluster)
			}
		}
	})
}

// matters reports whether more than the status has changed.
func matters(before, after *fleet.Bundle) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) || len(before.OwnerReferences) != len(after.OwnerReferences)
}

// clusterOf returns the Cluster whose agent a Bundle of the set contains. The Cluster may not exist, and the Bundle may be nil.
func clusterOf(bundle *fleet.Bundle) (types.NamespacedName, bool) {
	if bundle == nil || bundle.Annotations[fleet.AnnotationSetID] != names.AgentBundleSet {
		return types.NamespacedName{}, false
	}
	for _, target := range bundle.Spec.Targets {
		if names.AgentBundle(target.ClusterName) == bundle.Name {
			return types.NamespacedName{Namespace: bundle.Namespace, Name: target.ClusterName}, true
		}
	}
	return types.NamespacedName{}, false
}
