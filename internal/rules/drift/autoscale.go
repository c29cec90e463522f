package drift

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// leaveToAutoscaler drops the replicas of a desired workload that an autoscaler of the same release has scaled
// within its limits. One outside of them was scaled by somebody else.
func leaveToAutoscaler(in Input, desired map[string]any) {
	switch in.Desired.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
	default:
		return
	}
	replicas, found := integer(in.Live.Object, "spec", "replicas")
	if !found {
		return
	}
	for _, object := range in.Release {
		if scales(object, in.Desired, replicas) {
			unstructured.RemoveNestedField(desired, "spec", "replicas")
			return
		}
	}
}

// scales tells whether an object is an autoscaler of workload that may have set the number of replicas.
func scales(autoscaler, workload *unstructured.Unstructured, replicas int64) bool {
	gvk := autoscaler.GroupVersionKind()
	if gvk.Kind != "HorizontalPodAutoscaler" || gvk.Group != "autoscaling" || autoscaler.GetNamespace() != workload.GetNamespace() {
		return false
	}
	if !aimsAt(autoscaler, workload) {
		return false
	}
	least, found := integer(autoscaler.Object, "spec", "minReplicas")
	if !found {
		least = 1
	}
	most, found := integer(autoscaler.Object, "spec", "maxReplicas")
	return found && least <= replicas && replicas <= most
}

// aimsAt tells whether a workload is the target of an autoscaler, which need not name an API version.
func aimsAt(autoscaler, workload *unstructured.Unstructured) bool {
	target, _, err := unstructured.NestedMap(autoscaler.Object, "spec", "scaleTargetRef")
	if err != nil || target["kind"] != workload.GetKind() || target["name"] != workload.GetName() {
		return false
	}
	version, _ := target["apiVersion"].(string)
	return version == "" || version == workload.GetAPIVersion()
}

// integer reads a number, however it is held.
func integer(object map[string]any, fields ...string) (int64, bool) {
	value, found, err := unstructured.NestedFieldNoCopy(object, fields...)
	if err != nil || !found || !number(value) {
		return 0, false
	}
	return int64(asFloat(value)), true
}
