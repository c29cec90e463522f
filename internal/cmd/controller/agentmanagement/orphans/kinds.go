package orphans

import (
	"github.com/rancher/wrangler/v3/pkg/generic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kind describes one kind of objects that may have orphans.
type kind struct {
	// name is the key of the kind's count in the log.
	name   string
	list   func() ([]candidate, error)
	remove func(namespace, name string, options *metav1.DeleteOptions) error
}

// candidate is an object with owners.
type candidate struct {
	obj    metav1.Object
	owners []owner
}

// client is the part of a namespaced controller that the sweep needs.
type client[T generic.RuntimeMetaObject] interface {
	Cache() generic.CacheInterface[T]
	Delete(namespace, name string, options *metav1.DeleteOptions) error
}

// clusterClient is client for cluster-scoped objects.
type clusterClient[T generic.RuntimeMetaObject] interface {
	Cache() generic.NonNamespacedCacheInterface[T]
	Delete(name string, options *metav1.DeleteOptions) error
}

// namespaced returns the kind of a namespaced controller. Call it before the caches start.
func namespaced[T generic.RuntimeMetaObject](name string, c client[T], owners func(T) []owner) kind {
	cache := c.Cache()
	return kind{
		name: name,
		list: func() ([]candidate, error) {
			objects, err := cache.List(metav1.NamespaceAll, labels.Everything())
			return candidates(objects, owners), err
		},
		remove: c.Delete,
	}
}

// clusterWide is namespaced for cluster-scoped objects.
func clusterWide[T generic.RuntimeMetaObject](name string, c clusterClient[T], owners func(T) []owner) kind {
	cache := c.Cache()
	return kind{
		name: name,
		list: func() ([]candidate, error) {
			objects, err := cache.List(labels.Everything())
			return candidates(objects, owners), err
		},
		remove: func(_, name string, options *metav1.DeleteOptions) error { return c.Delete(name, options) },
	}
}

func candidates[T generic.RuntimeMetaObject](objects []T, owners func(T) []owner) (found []candidate) {
	for _, obj := range objects {
		if of := owners(obj); len(of) > 0 {
			found = append(found, candidate{obj, of})
		}
	}
	return found
}
