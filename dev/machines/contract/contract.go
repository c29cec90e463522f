package contract

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// IsPaused reports whether an object must stay untouched: it has the annotation, or its Cluster is paused. cluster may
// be nil.
func IsPaused(cluster *clusterv1.Cluster, object metav1.Object) bool {
	if cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		return true
	}
	_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

// IsExternallyManaged reports whether another system manages the object's infrastructure. The contract's text says label,
// the core uses an annotation: both count.
func IsExternallyManaged(object metav1.Object) bool {
	_, labelled := object.GetLabels()[clusterv1.ManagedByAnnotation]
	_, annotated := object.GetAnnotations()[clusterv1.ManagedByAnnotation]
	return labelled || annotated
}

// Owner returns the owner reference to a kind of the core, such as "Cluster" or "Machine", or nil if the core has not
// set it yet. Compare its UID: another object of that name may have been created since.
func Owner(object metav1.Object, kind string) *metav1.OwnerReference {
	for _, owner := range object.GetOwnerReferences() {
		version, err := schema.ParseGroupVersion(owner.APIVersion)
		if err == nil && version.Group == clusterv1.GroupVersion.Group && owner.Kind == kind {
			return &owner
		}
	}
	return nil
}

// OwnerOf reads the owner of a kind with get, or returns the zero value if the core has not set it, or it is gone.
func OwnerOf[T reconcile.Object](object metav1.Object, kind string, get func(namespace, name string) (T, error)) (owner T, err error) {
	reference := Owner(object, kind)
	if reference == nil {
		return owner, nil
	}
	found, err := get(object.GetNamespace(), reference.Name)
	if err != nil || found.GetUID() != reference.UID {
		return reconcile.Optional(owner, err)
	}
	return found, nil
}

// Keep adds a finalizer and returns the object, or the zero value if it is gone or being deleted. It reads from the API server:
// the cache may still contain an object whose resources are freed already, which would be created again for ever.
func Keep[T reconcile.Object](client reconcile.Patcher[T], object T, finalizer string) (kept T, err error) {
	current, err := client.Get(object.GetNamespace(), object.GetName(), metav1.GetOptions{})
	if err != nil || current.GetUID() != object.GetUID() || current.GetDeletionTimestamp() != nil {
		return reconcile.Optional(kept, err)
	}
	patched, err := reconcile.Patch(client, current, func(object T) {
		if !slices.Contains(object.GetFinalizers(), finalizer) {
			object.SetFinalizers(append(object.GetFinalizers(), finalizer))
		}
	})
	if err != nil || !slices.Contains(patched.GetFinalizers(), finalizer) {
		return kept, err
	}
	return patched, nil
}

// Controller returns the reference to an object of this provider as the controller of another. It does not block the
// owner's deletion, which would need more rights: finalizers keep the order.
func Controller(owner metav1.Object, kind string) metav1.OwnerReference {
	isController := true
	return metav1.OwnerReference{
		APIVersion: api.GroupVersion().String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &isController,
	}
}

// KubeconfigSecret returns the name of the Secret with a Cluster's kubeconfig.
func KubeconfigSecret(cluster string) string { return cluster + "-kubeconfig" }

// maxMessage limits messages of conditions, which contain texts of other processes.
const maxMessage = 1024

// conditions.Set sets a condition. The time changes only with the status.
func SetCondition(conditions *[]metav1.Condition, now time.Time, condition metav1.Condition) {
	if runes := []rune(condition.Message); len(runes) > maxMessage {
		condition.Message = string(runes[:maxMessage]) + "…"
	}
	condition.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(conditions, condition)
}
