package orphans

import (
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/generic"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube/answers"
)

// owners maps each kind of owner to a function that reports whether an owner exists.
type owners map[string]func(namespace, name string) (bool, error)

// census looks each owner up once.
type census struct {
	ask   owners
	known map[owner]bool
	// err is the error of an owner that could not be looked up.
	err error
}

func newCensus(ask owners) *census { return &census{ask: ask, known: map[owner]bool{}} }

// exists reports whether an owner exists. An owner that cannot be looked up counts as existing.
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

// getter is the part of a controller that looks up an owner.
type getter[T generic.RuntimeMetaObject] interface {
	Cache() generic.CacheInterface[T]
	Get(namespace, name string, options metav1.GetOptions) (T, error)
}

// existence returns a function that looks in the cache first, and then on the server. If the server does not know the
// kind at all, its answer is an error. Call existence before the caches start.
func existence[T generic.RuntimeMetaObject](c getter[T]) func(namespace, name string) (bool, error) {
	cache := c.Cache()
	return func(namespace, name string) (bool, error) {
		_, err := cache.Get(namespace, name)
		if apierrors.IsNotFound(err) {
			_, err = c.Get(namespace, name, metav1.GetOptions{})
		}
		if answers.IsDeleted(err) {
			return false, nil
		}
		return true, err
	}
}
