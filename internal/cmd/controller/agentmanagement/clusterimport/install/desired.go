package install

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// desired returns everything to apply downstream, in order: the agent's namespace, its ConfigMap, then what else the chart
// renders. All objects are marked as one set, so that the agent's own Bundle recognises them. If a Bundle owns the other
// objects, desired returns only those that the Bundle does not contain.
func desired(deploy *importing.AgentDeployment, rendered []runtime.Object) []runtime.Object {
	if !deploy.BesideBundle {
		return marked(deploy.SetID, append([]runtime.Object{namespaceOf(deploy)}, settingsFirst(rendered)...)...)
	}
	var beside []runtime.Object
	for _, object := range rendered {
		switch object.(type) {
		case *corev1.ConfigMap, *schedulingv1.PriorityClass, *policyv1.PodDisruptionBudget:
			beside = append(beside, object)
		}
	}
	return marked(deploy.SetID, beside...)
}

// settingsFirst moves the ConfigMap before the bootstrap Secret. An agent that already runs there registers as soon as that
// Secret exists, and with the client ID in the ConfigMap: that of an earlier Cluster would create another Cluster.
func settingsFirst(rendered []runtime.Object) []runtime.Object {
	isSettings := func(object runtime.Object) bool { _, is := object.(*corev1.ConfigMap); return is }
	settings := slices.DeleteFunc(slices.Clone(rendered), func(object runtime.Object) bool { return !isSettings(object) })
	return append(settings, slices.DeleteFunc(slices.Clone(rendered), isSettings)...)
}

func namespaceOf(deploy *importing.AgentDeployment) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: deploy.Values.Namespace},
	}
}

// resourcePolicy is Helm's annotation for objects that an upgrade or an uninstallation does not delete.
const resourcePolicy = "helm.sh/resource-policy"

// kept annotates the PriorityClass and the PodDisruptionBudget of objects, which it changes. The agent's Bundle contains both as
// long as the Cluster has no kubeconfig. Without the annotation, the agent would delete them when its Bundle no longer does.
func kept(objects []runtime.Object) []runtime.Object {
	for _, object := range objects {
		switch object := object.(type) {
		case *schedulingv1.PriorityClass:
			object.Annotations[resourcePolicy] = "keep"
		case *policyv1.PodDisruptionBudget:
			object.Annotations[resourcePolicy] = "keep"
		}
	}
	return objects
}

// marked returns copies of objects with the marks of their set.
func marked(setID string, objects ...runtime.Object) []runtime.Object {
	hash := names.SetHash(setID, names.Owner{})
	var copies []runtime.Object
	for _, object := range objects {
		object = object.DeepCopyObject()
		accessor, err := meta.Accessor(object)
		if err != nil {
			continue // every object of the chart has metadata
		}
		accessor.SetLabels(labels.Merge(accessor.GetLabels(), labels.Set{fleet.LabelSetHash: hash}))
		accessor.SetAnnotations(labels.Merge(accessor.GetAnnotations(), labels.Set{fleet.AnnotationSetID: setID}))
		copies = append(copies, object)
	}
	return copies
}
