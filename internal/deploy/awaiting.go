package deploy

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// awaitedObject identifies a downstream object that a BundleDeployment waits for.
type awaitedObject struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

func (o awaitedObject) String() string {
	return state.Describe(o.Resource.GroupVersion().String(), o.Resource.Resource, o.Namespace, o.Name)
}

// core returns an awaitedObject of a core resource. The namespace is empty for namespaces.
func core(resource, namespace, name string) awaitedObject {
	return awaitedObject{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: namespace, Name: name}
}

// awaitingError is an error that only a change of an object can resolve.
type awaitingError struct {
	object awaitedObject
	cause  error
}

func (e *awaitingError) Error() string { return e.cause.Error() }
func (e *awaitingError) Unwrap() error { return e.cause }

// until marks an error as one that only a change of the object can resolve.
func until(object awaitedObject, cause error) error {
	if cause == nil {
		return nil
	}
	return &awaitingError{object: object, cause: cause}
}

// awaitedBy returns the object whose change may resolve an error, or nil if no object can. alone is true if
// nothing else can resolve it. If a namespace is terminating, it may be another namespace than the release's, so
// alone is false.
func awaitedBy(bd *fleet.BundleDeployment, err error) (object *awaitedObject, alone bool) {
	var waits *awaitingError
	switch {
	case err == nil:
		return nil, false
	case errors.As(err, &waits):
		return &waits.object, true
	case reasonOf(err) == fleet.ReasonNamespaceTerminating:
		going := core("namespaces", "", namespaceFor(&bd.Spec.Options))
		return &going, false
	}
	return nil, false
}
