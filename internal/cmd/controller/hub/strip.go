package hub

import (
	"unique"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// strip is the transform of all caches. It drops what no controller reads: the managed fields, the annotation in which
// Rancher Fleet stores what it applied last (for Bundles only its value), and the data of Contents, which is most of a
// hub's data. It clears the kind, as watches leave it empty. It cuts what agents report to the limits of a status, so
// that nothing longer gets into other objects.
func strip(obj any) (any, error) {
	item, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // a tombstone has no metadata and stays unchanged
	}
	if object, is := obj.(runtime.Object); is {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	item.SetManagedFields(nil)
	_, noted := item.GetAnnotations()[fleet.AnnotationSetApplied]
	delete(item.GetAnnotations(), fleet.AnnotationSetApplied)
	switch o := obj.(type) {
	case *fleet.Cluster:
		if o.Status.Namespace != names.ClusterNamespace(o.Namespace, o.Name) {
			o.Status.Namespace = "" // an agent may write it, see docs/decisions/0005
		}
		state.Bound(o)
	case *fleet.Content:
		o.Content = nil
	case *fleet.Bundle:
		if noted { // it identifies agents deployed by Rancher Fleet
			o.Annotations[fleet.AnnotationSetApplied] = ""
		}
		stripBundle(o)
	case *fleet.BundleDeployment:
		stripDeployment(o)
	}
	return obj, nil
}

// stripBundle shares the manifests of agents' Bundles. A thousand Clusters have a thousand Bundles of several
// kilobytes each, and few of them differ.
func stripBundle(bundle *fleet.Bundle) {
	if bundle.Annotations[fleet.AnnotationSetID] == names.AgentBundleSet {
		for i := range bundle.Spec.Resources {
			share(&bundle.Spec.Resources[i].Content)
		}
	}
}

// stripDeployment drops the deployed resources (so the status must never be written completely). It shares the texts
// that are repeated for each cluster and each Bundle, and the staged options if they equal the current ones.
func stripDeployment(bd *fleet.BundleDeployment) {
	bd.Status.Resources = nil // drop it before Bound measures it
	state.Bound(bd)
	spec, status := &bd.Spec, &bd.Status
	if equality.Semantic.DeepEqual(spec.Options, spec.StagedOptions) {
		spec.StagedOptions = spec.Options
	}
	share(&bd.Name, &bd.Namespace, &spec.DeploymentID, &spec.StagedDeploymentID, &status.AppliedDeploymentID, &status.Release,
		&status.Display.Deployed, &status.Display.Monitored, &status.Display.State)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		share(&c.Type, (*string)(&c.Status), &c.Reason, &c.Message, &c.LastUpdateTime, &c.LastTransitionTime)
	}
	for i := range bd.Finalizers {
		share(&bd.Finalizers[i])
	}
	labels := make(map[string]string, len(bd.Labels))
	for key, value := range bd.Labels {
		share(&key, &value)
		labels[key] = value
	}
	if len(labels) > 0 {
		bd.Labels = labels
	}
}

// share replaces texts by equal ones that are in memory already, if they were used since the last garbage collection.
func share(texts ...*string) {
	for _, text := range texts {
		*text = unique.Make(*text).Value()
	}
}
