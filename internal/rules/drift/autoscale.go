package drift

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// leaveToAutoscaler drops the replicas of a desired workload if an autoscaler of the same release may have set the
// live number. A number outside the autoscaler's limits counts as drift.
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

// scales reports whether an object is an autoscaler of workload that may have set this number of replicas.
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

// aimsAt reports whether a workload is the target of an autoscaler. The autoscaler may omit the API version.
func aimsAt(autoscaler, workload *unstructured.Unstructured) bool {
	target, _, err := unstructured.NestedMap(autoscaler.Object, "spec", "scaleTargetRef")
	if err != nil || target["kind"] != workload.GetKind() || target["name"] != workload.GetName() {
		return false
	}
	version, _ := target["apiVersion"].(string)
	return version == "" || version == workload.GetAPIVersion()
}

// integer reads a number in any representation.
func integer(object map[string]any, fields ...string) (int64, bool) {
	value, found, err := unstructured.NestedFieldNoCopy(object, fields...)
	if err != nil || !found || !number(value) {
		return 0, false
	}
	return int64(asFloat(value)), true
}
