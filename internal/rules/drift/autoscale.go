package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Autoscalers are the HorizontalPodAutoscalers of a release, by the workload that they scale.
type Autoscalers map[workload][]*unstructured.Unstructured

// workload is what an autoscaler scales, in its own namespace.
type workload struct{ namespace, kind, name string }

// AutoscalersOf returns the autoscalers among the objects of a release.
func AutoscalersOf(release []*unstructured.Unstructured) Autoscalers {
	found := Autoscalers{}
	for _, object := range release {
		if gvk := object.GroupVersionKind(); gvk.Kind != "HorizontalPodAutoscaler" || gvk.Group != "autoscaling" {
			continue
		}
		target, _, err := unstructured.NestedMap(object.Object, "spec", "scaleTargetRef")
		if err != nil {
			continue
		}
		kind, _ := target["kind"].(string)
		name, _ := target["name"].(string)
		scaled := workload{object.GetNamespace(), kind, name}
		found[scaled] = append(found[scaled], object)
	}
	return found
}

// isScaled reports whether an autoscaler of the same release may have set the live number of replicas of a workload. A number
// outside the autoscaler's limits counts as drift.
func isScaled(in Input) bool {
	switch in.Desired.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
	default:
		return false
	}
	replicas, found := integer(in.Live.Object, "spec", "replicas")
	scalers := in.Autoscalers[workload{in.Desired.GetNamespace(), in.Desired.GetKind(), in.Desired.GetName()}]
	return found && slices.ContainsFunc(scalers, func(object *unstructured.Unstructured) bool { return scales(object, in.Desired, replicas) })
}

// scales reports whether an autoscaler of a workload may have set this number of replicas. The autoscaler may omit the API
// version of the workload.
func scales(autoscaler, workload *unstructured.Unstructured, replicas int64) bool {
	version, _, err := unstructured.NestedString(autoscaler.Object, "spec", "scaleTargetRef", "apiVersion")
	if err == nil && version != "" && version != workload.GetAPIVersion() {
		return false
	}
	least, found := integer(autoscaler.Object, "spec", "minReplicas")
	if !found {
		least = 1
	}
	most, found := integer(autoscaler.Object, "spec", "maxReplicas")
	return found && least <= replicas && replicas <= most
}

// integer reads a number in any representation.
func integer(object map[string]any, fields ...string) (int64, bool) {
	value, found, err := unstructured.NestedFieldNoCopy(object, fields...)
	if err != nil || !found || !number(value) {
		return 0, false
	}
	return int64(asFloat(value)), true
}
