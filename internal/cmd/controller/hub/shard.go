package hub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Owns says whether this process looks after an object: one with the shard's label if the process is a shard, one
// without the label, or with an empty one, if it is none. Every process sees all objects. Nobody looks after one that
// could not be read whole: it stays as it is until that is corrected.
func (a *Context) Owns(object metav1.Object) bool {
	return object.GetLabels()[fleet.LabelShardRef] == a.Env.Shard && !a.holds(object)
}
