package strip

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// stripper transforms the objects of caches. It knows the labels and annotations that the children of one set share.
type stripper struct{ maps *lru.Cache }

func newStripper() stripper { return stripper{lru.New(maxShared)} }

// New returns the transform of the caches of one scope, whose objects share texts and metadata.
func New() cache.TransformFunc { return newStripper().strip }

// strip drops what no controller reads: the managed fields, the annotation in which
// Rancher Fleet stores what it applied last (for Bundles only its value), and the data of Contents, which is most of a
// hub's data. It clears the kind, as watches leave it empty. It cuts what agents report to the limits of a status, so
// that nothing longer gets into other objects.
func (s stripper) strip(obj any) (any, error) {
	item, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // a tombstone has no metadata and stays unchanged
	}
	if object, is := obj.(runtime.Object); is {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	item.SetManagedFields(nil)
	switch o := obj.(type) {
	case *fleet.Cluster:
		if o.Status.Namespace != names.ClusterNamespace(o.Namespace, o.Name) {
			o.Status.Namespace = "" // an agent may write it, see docs/decisions/0005
		}
		state.Bound(o)
		o.Status.Conditions = shareConditions(o.Status.Conditions)
		share(&o.Status.Agent.RecoveryKey)
	case *fleet.ClusterRegistration:
		o.Status.Conditions = shareConditions(o.Status.Conditions)
	case *fleet.Content:
		o.Content = nil
	case *fleet.Bundle:
		stripBundle(o)
		o.Status.Conditions = shareConditions(o.Status.Conditions)
	case *fleet.BundleDeployment:
		stripDeployment(o)
	case *rbacv1.Role:
		shareRules(o.Rules)
	case *rbacv1.RoleBinding:
		shareSubjects(o)
	}
	s.shareMetadata(item)
	return obj, nil
}

// stripBundle drops the resources, most of a Bundle, and keeps their hash. Callers that need the resources read the Bundle
// from the API server. It keeps and shares those of agents' Bundles, which are compared: a thousand Clusters have a thousand
// Bundles of several kilobytes each, and few of them differ.
func stripBundle(bundle *fleet.Bundle) {
	if bundle.Annotations[fleet.AnnotationSetID] == names.AgentBundleSet {
		for i := range bundle.Spec.Resources {
			share(&bundle.Spec.Resources[i].Content)
		}
		return
	}
	if bundle.Spec.ResourcesHash != "" {
		return // stripped before
	}
	bundle.Spec.ResourcesHash, bundle.Spec.Resources = content.Manifest{Resources: bundle.Spec.Resources}.SHA256(), nil
}

// stripDeployment drops the deployed resources. Because of this, write the status only with a patch. It keeps values as
// text, which takes less memory and can be written. It shares the texts that are repeated for each cluster and each Bundle,
// and the staged options if they equal the current ones.
func stripDeployment(bd *fleet.BundleDeployment) {
	bd.Status.Resources = nil // drop it before Bound measures it
	state.Bound(bd)
	spec, status := &bd.Spec, &bd.Status
	for _, options := range []*fleet.BundleDeploymentOptions{&spec.Options, &spec.StagedOptions} {
		delivery.CompactValues(options)
		if options.Helm != nil && options.Helm.Values != nil {
			share(&options.Helm.Values.Text)
		}
	}
	if equality.Semantic.DeepEqual(spec.Options, spec.StagedOptions) {
		spec.StagedOptions = spec.Options
	}
	share(&bd.Name, &bd.Namespace, &spec.DeploymentID, &spec.StagedDeploymentID, &status.AppliedDeploymentID, &status.Release,
		&status.Display.Deployed, &status.Display.Monitored, &status.Display.State)
	status.Conditions = shareConditions(status.Conditions)
	labels := make(map[string]string, len(bd.Labels))
	for key, value := range bd.Labels {
		share(&key, &value)
		labels[key] = value
	}
	if len(labels) > 0 {
		bd.Labels = labels
	}
}
