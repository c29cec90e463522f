package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// mostRecent bounds what is remembered of one kind. It is more than is written while a cache lags.
const mostRecent = 64

// recent has the children of one kind that this process wrote and its cache may not have yet, so that none is made
// or changed a second time. It may be used by many at a time.
type recent struct {
	clock   func() time.Time
	mu      sync.Mutex
	objects map[types.NamespacedName]writing
}

// writing is an object as it was written.
type writing struct {
	object Object
	// seen says that the cache had it before.
	seen bool
	at   time.Time
}

// note remembers what was written over what the cache had, nil for nothing.
func (r *recent) note(written, cached Object) {
	written.SetManagedFields(nil) // as in the caches
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil || len(r.objects) >= mostRecent {
		r.objects = map[types.NamespacedName]writing{} // what is forgotten costs a request at most
	}
	r.objects[keyOf(written)] = writing{object: written, seen: cached != nil && cached.GetUID() == written.GetUID(), at: r.clock()}
}

func (r *recent) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.objects, key)
}

// newest is an object as it was written last: as it is in the cache, nil if it is not there, or as this process wrote
// it since. After writtenLife the cache is right in any case. synced is how far the cache has come, as its informer
// says, which is a moment before it has: so of an object that is there, the versions are compared.
func (r *recent) newest(key types.NamespacedName, cached Object, synced string) Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	written, there := r.objects[key]
	if !there {
		return cached
	}
	if r.clock().Sub(written.at) > writtenLife || cached != nil && !newer(written.object, cached) || cached == nil && written.gone(synced) {
		delete(r.objects, key)
		return cached
	}
	return written.object
}

// gone says of what is not in the cache whether the cache saw it go: if it had it before, or has come past the write. It
// may not say how far it has come in the first case: an informer that lists anew tells of what is gone first.
func (w writing) gone(synced string) bool {
	behind, err := resourceversion.CompareResourceVersion(synced, w.object.GetResourceVersion())
	return w.seen || err != nil || behind >= 0
}
