package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// writtenLife is how long a written object counts as newer than the cache. Caches lag by less. After that, a cache
// with an older object is right: the server was restored from an older state.
const writtenLife = 3 * time.Second

// Written is a mutation cache: for a while it remembers the objects that this process wrote, so that the next write
// starts from them instead of failing with a conflict. The zero value is ready to use and safe for concurrent use.
type Written struct {
	mu      sync.Mutex
	objects map[types.UID]writtenObject
	cleaned time.Time
}

type writtenObject struct {
	object Object
	at     time.Time
}

// Note remembers an object as the server returned it.
func (w *Written) Note(object Object, now time.Time) {
	object.SetManagedFields(nil) // as in the caches
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.objects == nil {
		w.objects = map[types.UID]writtenObject{}
	}
	if now.Sub(w.cleaned) > writtenLife {
		for uid, old := range w.objects {
			if now.Sub(old.at) > writtenLife {
				delete(w.objects, uid)
			}
		}
		w.cleaned = now
	}
	if old, there := w.objects[object.GetUID()]; !there || now.Sub(old.at) > writtenLife || !newer(old.object, object) {
		w.objects[object.GetUID()] = writtenObject{object, now}
	}
}

// Newest returns the object read from a cache, or a newer version that this process has just written. The object in
// hand may be older than the cache.
func Newest[T Object](w *Written, read T, now time.Time) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, there := w.objects[read.GetUID()]
	if !there || now.Sub(known.at) > writtenLife || !newer(known.object, read) {
		return read
	}
	if object, ok := known.object.(T); ok {
		return object
	}
	return read
}

// newer reports whether a was written after b. It returns false if the versions cannot be compared.
func newer(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
