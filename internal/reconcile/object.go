package reconcile

import (
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Object is any API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Optional turns "not found" into the zero value without an error: to a rule, a missing object is nil.
func Optional[T any](obj T, err error) (T, error) {
	if apierrors.IsNotFound(err) {
		var none T
		return none, nil
	}
	return obj, err
}

// Deleter is the part of a controller's client that a deletion needs.
type Deleter interface {
	Delete(namespace, name string, options *metav1.DeleteOptions) error
}

// Delete deletes exactly this object. It is not an error if the object is gone, or if another one has its name now.
func Delete(client Deleter, obj metav1.Object) error {
	return IgnoreGone(client.Delete(obj.GetNamespace(), obj.GetName(), Exactly(obj)))
}

// Exactly returns the options to delete this object, but not another one that has its name now.
func Exactly(obj metav1.Object) *metav1.DeleteOptions {
	return metav1.NewPreconditionDeleteOptions(string(obj.GetUID()))
}

// IgnoreGone returns nil for the error of a deletion whose object is gone, or is not the one to delete.
func IgnoreGone(err error) error {
	return utilerrors.FilterOut(err, apierrors.IsNotFound, apierrors.IsConflict)
}

// Enqueue returns a function that enqueues an object at once. Unlike the controllers' own method Enqueue, it does not
// count as a failure and so never delays the key.
func Enqueue(controller interface {
	EnqueueAfter(namespace, name string, after time.Duration)
}) func(types.NamespacedName) {
	return func(key types.NamespacedName) { controller.EnqueueAfter(key.Namespace, key.Name, 0) }
}

// EnqueueCluster is Enqueue for cluster-scoped objects; the key's namespace is ignored.
func EnqueueCluster(controller interface {
	EnqueueAfter(name string, after time.Duration)
}) func(types.NamespacedName) {
	return func(key types.NamespacedName) { controller.EnqueueAfter(key.Name, 0) }
}

// ParseKey parses the key that a handler gets: "<namespace>/<name>", or "<name>" for cluster-scoped objects.
func ParseKey(key string) types.NamespacedName {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return types.NamespacedName{Name: key}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
