package orphans

import (
	"github.com/rancher/wrangler/v3/pkg/generic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kind is one kind of objects among which there may be orphans.
type kind struct {
	// name is how it is counted in the log.
	name   string
	list   func() ([]candidate, error)
	remove func(namespace, name string, options *metav1.DeleteOptions) error
}

// candidate is an object that has owners.
type candidate struct {
	obj    metav1.Object
	owners []owner
}

// client is the part of a controller that the sweep needs of a kind.
type client[T generic.RuntimeMetaObject] interface {
	Cache() generic.CacheInterface[T]
	Delete(namespace, name string, options *metav1.DeleteOptions) error
}

// clusterClient is client for objects that are in no namespace.
type clusterClient[T generic.RuntimeMetaObject] interface {
	Cache() generic.NonNamespacedCacheInterface[T]
	Delete(name string, options *metav1.DeleteOptions) error
}

// namespaced is the kind of a controller. To be called before the caches start.
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

// clusterWide is namespaced for objects that are in no namespace.
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
