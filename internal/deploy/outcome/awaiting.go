package outcome

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Awaited identifies a downstream object that a BundleDeployment waits for.
type Awaited struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

func (o Awaited) String() string {
	return state.Describe(o.Resource.GroupVersion().String(), o.Resource.Resource, o.Namespace, o.Name)
}

// CoreObject returns an Awaited of a core resource. The namespace is empty for namespaces.
func CoreObject(resource, namespace, name string) Awaited {
	return Awaited{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: namespace, Name: name}
}

// awaitingError is an error that only a change of an object can resolve.
type awaitingError struct {
	object Awaited
	cause  error
}

func (e *awaitingError) Error() string { return e.cause.Error() }
func (e *awaitingError) Unwrap() error { return e.cause }

// Until marks an error as one that only a change of the object can resolve.
func Until(object Awaited, cause error) error {
	if cause == nil {
		return nil
	}
	return &awaitingError{object: object, cause: cause}
}

// AwaitedBy returns the object whose change may resolve an error, or nil if no object can. alone is true if
// nothing else can resolve it. If a namespace is terminating, it may be another namespace than the release's, so
// alone is false. Without an error, it is the namespace if the bundle labels it, because others may remove the labels.
func AwaitedBy(bd *fleet.BundleDeployment, err error) (object *Awaited, alone bool) {
	var waits *awaitingError
	switch {
	case err == nil && len(bd.Spec.Options.NamespaceLabels)+len(bd.Spec.Options.NamespaceAnnotations) == 0:
		return nil, false
	case errors.As(err, &waits):
		return &waits.object, true
	case err == nil, ReasonOf(err) == conditions.ReasonNamespaceTerminating:
		namespace := CoreObject("namespaces", "", placement.NamespaceOf(&bd.Spec.Options))
		return &namespace, false
	}
	return nil, false
}
