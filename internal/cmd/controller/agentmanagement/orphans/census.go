package orphans

import (
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/generic"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owners says for each kind of owner how to find out whether there is one.
type owners map[string]func(namespace, name string) (bool, error)

// census asks once for each owner.
type census struct {
	ask   owners
	known map[owner]bool
	// err is of an owner that could not be asked for.
	err error
}

func newCensus(ask owners) *census { return &census{ask: ask, known: map[owner]bool{}} }

// exists says whether an owner is there. One that cannot be asked for is taken to be.
func (c *census) exists(o owner) bool {
	is, asked := c.known[o]
	if asked {
		return is
	}
	is, err := c.ask[o.kind](o.namespace, o.name)
	if err != nil {
		is, c.err = true, fmt.Errorf("looking for the %s %s/%s: %w", o.kind, o.namespace, o.name, err)
	}
	c.known[o] = is
	return is
}

// getter is the part of a controller that tells whether an owner exists.
type getter[T generic.RuntimeMetaObject] interface {
	Cache() generic.CacheInterface[T]
	Get(namespace, name string, options metav1.GetOptions) (T, error)
}

// existence asks the cache, and where that has nothing, the server. A server that does not know the kind at all says
// nothing about its objects. To be called before the caches start.
func existence[T generic.RuntimeMetaObject](c getter[T]) func(namespace, name string) (bool, error) {
	cache := c.Cache()
	return func(namespace, name string) (bool, error) {
		_, err := cache.Get(namespace, name)
		if apierrors.IsNotFound(err) {
			_, err = c.Get(namespace, name, metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) {
			return false, nil
		}
		return true, err
	}
}
