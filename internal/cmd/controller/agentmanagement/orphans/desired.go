package orphans

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Kinds of owners.
const (
	clusterKind      = "Cluster"
	registrationKind = "ClusterRegistration"
	tokenKind        = "ClusterRegistrationToken"
	bundleKind       = "Bundle"
)

// owner identifies the object that another object was made for.
type owner struct{ kind, namespace, name string }

// orphaned reports whether one of the owners is gone. An object without owners is never an orphan.
func orphaned(owners []owner, exists func(owner) bool) bool {
	for _, o := range owners {
		if !exists(o) {
			return true
		}
	}
	return false
}

// ownersOfRight returns the objects that an account, role, binding or Secret was made for: the registration or token
// that owns its set, the registration that it answers, and the Cluster whose agent's account it is.
func ownersOfRight[T metav1.Object](obj T) (owners []owner) {
	if !objects.IsOurs(obj) {
		return nil
	}
	annotations := obj.GetAnnotations()
	if o, is := setOwner(obj); is {
		owners = append(owners, o)
	}
	workspace := annotations[fleet.AnnotationClusterRegistrationNamespace]
	owners = append(owners, complete(registrationKind, workspace, annotations[fleet.AnnotationClusterRegistration])...)
	return append(owners, complete(clusterKind, workspace, annotations[fleet.AnnotationCluster])...)
}

// ownersOfBundle returns the Cluster whose agent a Bundle of the agents' set contains. Bundles of users have no
// owner.
func ownersOfBundle(bundle *fleet.Bundle) []owner {
	workspace := names.Owner{GVK: corev1.SchemeGroupVersion.WithKind("Namespace").String(), Name: bundle.Namespace}
	if !objects.IsFree(bundle) || bundle.Annotations[fleet.AnnotationSetID] != names.AgentBundleSet ||
		bundle.Labels[fleet.LabelSetHash] != names.SetHash(names.AgentBundleSet, workspace) {
		return nil
	}
	for _, target := range bundle.Spec.Targets {
		if target.ClusterName != "" && names.AgentBundle(target.ClusterName) == bundle.Name {
			return []owner{{clusterKind, bundle.Namespace, target.ClusterName}}
		}
	}
	return nil
}

// ownersOfDeployment returns the Bundle that a BundleDeployment was made from, and its Cluster.
func ownersOfDeployment(deployment *fleet.BundleDeployment) []owner {
	if !objects.IsOurs(deployment) {
		return nil
	}
	labels := deployment.Labels
	return append(
		complete(bundleKind, labels[fleet.LabelBundleNamespace], labels[fleet.LabelBundleName]),
		complete(clusterKind, labels[fleet.LabelClusterNamespace], labels[fleet.LabelCluster])...,
	)
}

// setOwner returns the owner of an object's set, if the set belongs to a registration or token and its hash matches
// the annotations. A changed copy of an object is not a member.
func setOwner(obj metav1.Object) (owner, bool) {
	annotations := obj.GetAnnotations()
	kinds := map[string]string{tokenrule.SetID: tokenKind, grant.SetID: registrationKind}
	set := annotations[fleet.AnnotationSetID]
	kind, known := kinds[set]
	said := names.Owner{
		GVK: annotations[fleet.AnnotationSetOwnerGVK], Name: annotations[fleet.AnnotationSetOwnerName],
		Namespace: annotations[fleet.AnnotationSetOwnerNamespace],
	}
	if !known || said.Name == "" || said.Namespace == "" || said.GVK != fleet.SchemeGroupVersion.WithKind(kind).String() ||
		obj.GetLabels()[fleet.LabelSetHash] != names.SetHash(set, said) {
		return owner{}, false
	}
	return owner{kind, said.Namespace, said.Name}, true
}

// complete returns an owner if both parts of its name are known.
func complete(kind, namespace, name string) []owner {
	if namespace == "" || name == "" {
		return nil
	}
	return []owner{{kind, namespace, name}}
}
