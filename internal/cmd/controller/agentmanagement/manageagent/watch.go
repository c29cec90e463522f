package manageagent

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watchBundles enqueues the Cluster of an agent's Bundle that is added, changed or deleted, so that the Bundle is
// repaired, or removed if it is no longer wanted. Changes of the status, by far the most frequent, are skipped. Call
// it before the informer starts.
func watchBundles(informer cache.SharedIndexInformer, nudge func(types.NamespacedName)) error {
	tell := func(obj any) {
		if bundle, ok := obj.(*fleet.Bundle); ok {
			if cluster, known := clusterOf(bundle); known {
				nudge(cluster)
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		UpdateFunc: func(before, after any) {
			old, okOld := before.(*fleet.Bundle)
			current, ok := after.(*fleet.Bundle)
			if ok && okOld && matters(old, current) {
				tell(old) // perhaps only the old state names the Cluster
				tell(current)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			tell(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("watching the agents' bundles: %w", err)
	}
	return nil
}

// matters reports whether more than the status has changed.
func matters(before, after *fleet.Bundle) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) || len(before.OwnerReferences) != len(after.OwnerReferences)
}

// clusterOf returns the Cluster whose agent a Bundle of the set contains. The Cluster may not exist.
func clusterOf(bundle *fleet.Bundle) (types.NamespacedName, bool) {
	if bundle.Annotations[fleet.AnnotationSetID] != names.AgentBundleSet {
		return types.NamespacedName{}, false
	}
	for _, target := range bundle.Spec.Targets {
		if names.AgentBundle(target.ClusterName) == bundle.Name {
			return types.NamespacedName{Namespace: bundle.Namespace, Name: target.ClusterName}, true
		}
	}
	return types.NamespacedName{}, false
}
