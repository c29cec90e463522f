package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// writtenLife is how long what was written is taken for newer than what a cache has. Caches lag by less. After that, a
// cache that has something older is right: the server was restored from an older state.
const writtenLife = 3 * time.Second

// Written remembers for a while what this process wrote, so that the next write begins with it instead
// of being refused and worked out anew. The zero value is ready; it may be used by many at a time.
type Written struct {
	mu      sync.Mutex
	objects map[types.UID]writtenObject
	cleaned time.Time
}

type writtenObject struct {
	object Object
	at     time.Time
}

// Note remembers an object as the server has returned it.
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

// Newest is the object as it was read from a cache, or as it was written since, if that was a moment ago. The cache may
// have come past the write meanwhile: what was read from it before has not.
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

// newer says whether a was written after b. Of versions that cannot be compared nobody knows.
func newer(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
