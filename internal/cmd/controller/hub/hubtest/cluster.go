package hubtest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// decode creates a new object from JSON. Decoding into the old object would keep removed map entries.
func (k *fakeKind[T, L]) decode(document []byte) (T, error) {
	var none T
	fresh, ok := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	if !ok {
		return none, unexpected("decode a " + k.gvk.Kind)
	}
	return fresh, json.Unmarshal(document, fresh)
}

// clusterKind is a fakeKind for cluster-scoped objects.
type clusterKind[T object, L runtime.Object] struct {
	generic.NonNamespacedControllerInterface[T, L]

	kind *fakeKind[T, L]
}

func (c clusterKind[T, L]) GroupVersionKind() schema.GroupVersionKind { return c.kind.gvk }
func (c clusterKind[T, L]) Informer() cache.SharedIndexInformer       { return c.kind.informer }
func (c clusterKind[T, L]) Create(obj T) (T, error)                   { return c.kind.Create(obj) }

func (c clusterKind[T, L]) Cache() generic.NonNamespacedCacheInterface[T] {
	return generic.NewNonNamespacedCache[T](c.kind.spoiled, c.kind.resource())
}

func (c clusterKind[T, L]) Get(name string, o metav1.GetOptions) (T, error) {
	return c.kind.Get("", name, o)
}

func (c clusterKind[T, L]) Patch(name string, pt types.PatchType, data []byte, sub ...string) (T, error) {
	return c.kind.Patch("", name, pt, data, sub...)
}

func (c clusterKind[T, L]) Delete(name string, o *metav1.DeleteOptions) error {
	return c.kind.Delete("", name, o)
}

func (c clusterKind[T, L]) EnqueueAfter(name string, after time.Duration) {
	c.kind.EnqueueAfter("", name, after)
}
