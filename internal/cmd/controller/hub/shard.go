package hub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Owns reports whether this process reconciles an object. A shard owns the objects with its label. The other process
// owns the objects without the label or with an empty one. Every process sees all objects. No process owns an object
// that was decoded incompletely, until it is corrected.
func (a *Context) Owns(object metav1.Object) bool {
	return object.GetLabels()[fleet.LabelShardRef] == a.Env.Shard && len(a.undecodable.of(object)) == 0
}
