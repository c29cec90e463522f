package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// mostRecent limits the remembered writes of one kind. It is more than one kind is written while a cache lags.
const mostRecent = 64

// recent is a mutation cache: it holds the children of one kind that this process wrote and that its cache may not
// have yet, so that none is created or changed twice. It is safe for concurrent use.
type recent struct {
	clock   func() time.Time
	mu      sync.Mutex
	objects map[types.NamespacedName]writing
}

// A writing is an object as it was written.
type writing struct {
	object Object
	// seen means that the cache had the object before.
	seen bool
	at   time.Time
}

// note remembers an object that was written. cached is the object that the cache had before, or nil.
func (r *recent) note(written, cached Object) {
	written.SetManagedFields(nil) // as in the caches
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil || len(r.objects) >= mostRecent {
		r.objects = map[types.NamespacedName]writing{} // a forgotten write costs one request at most
	}
	r.objects[keyOf(written)] = writing{object: written, seen: cached != nil && cached.GetUID() == written.GetUID(), at: r.clock()}
}

func (r *recent) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.objects, key)
}

// newest returns the newest known version of an object: the cached one (nil if it is not cached), or the one that this
// process has written since. After writtenLife the cache is always right. synced is the resource version that the
// informer reports. It reports the version a moment before the cache has it, so cached objects are compared by their
// own versions.
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

// gone reports whether an object that is not in the cache was deleted: the cache had it before, or the informer has
// passed the write. In the first case synced does not matter, because an informer that lists again reports deletions
// before it advances.
func (w writing) gone(synced string) bool {
	behind, err := resourceversion.CompareResourceVersion(synced, w.object.GetResourceVersion())
	return w.seen || err != nil || behind >= 0
}
