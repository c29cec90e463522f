package manageagent

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watchBundles wakes the Cluster of an agent's Bundle that appears, goes or is changed, so that it is healed, or
// removed if nobody wants it any more. Changes of the status are most of all changes, and concern nobody here. To be
// called before the informer starts.
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
				tell(old) // which may be the only one that says whose it is
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

// matters leaves out changes of the status.
func matters(before, after *fleet.Bundle) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) || len(before.OwnerReferences) != len(after.OwnerReferences)
}

// clusterOf is the Cluster whose agent a Bundle of the set holds, whether there is such a Cluster or not.
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
