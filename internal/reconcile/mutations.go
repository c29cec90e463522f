package reconcile

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// mutationLife is how long a written object counts as newer than the cache. Caches lag by less. After that, a cache
// with an older object is right: the server was restored from an older state.
const mutationLife = 3 * time.Second

// MutationCache remembers the objects that this process wrote until the informer's cache has caught up. The zero value
// is ready to use and safe for concurrent use.
//
//	response to a write ─► Note ─┐
//	informer's cache ────────────┴─► Newest ─► decision
//
// The MutationCache of client-go does not fit. It holds 100 objects, fewer than one rollout writes. It returns created
// objects either never, or for its whole time to live even if they were deleted. It drops nothing when the informer
// reports the write, and it panics if a resource version is not a number.
type MutationCache[K comparable, T Mutable] struct {
	// Life is how long a written object is remembered; 0 means 3 seconds.
	Life time.Duration

	mu      sync.Mutex
	written map[K]Mutation[T]
	cleaned time.Time
}

// Mutable is a pointer to an API object, or an interface of such pointers.
type Mutable interface {
	comparable
	Object
}

// Mutation is an object that this process wrote.
type Mutation[T Mutable] struct {
	// Object is the object as the server returned it.
	Object T
	// At is the time of the response.
	At time.Time
	// wasCached means that the cache had the object before. If the cache no longer has it, it was deleted.
	wasCached bool
}

// Note remembers an object as the server returned it. cached is the object that the cache had before the write, or the
// zero value.
func (c *MutationCache[K, T]) Note(key K, written, cached T, now time.Time) {
	if len(written.GetManagedFields()) > 0 {
		written.SetManagedFields(nil) // as in the caches
	}
	var none T
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written = map[K]Mutation[T]{}
	}
	if now.Sub(c.cleaned) > c.life() {
		maps.DeleteFunc(c.written, func(_ K, m Mutation[T]) bool { return c.isOver(m, now) })
		c.cleaned = now
	}
	if old, there := c.written[key]; !there || c.isOver(old, now) || !Newer(old.Object, written) {
		c.written[key] = Mutation[T]{Object: written, At: now, wasCached: cached != none && cached.GetUID() == written.GetUID()}
	}
}

// Newest returns the newer one of the cached object, which is the zero value if the cache has none, and the written
// one. The caller may have read the cache a while ago, so Newest keeps what the cache seems to have.
func (c *MutationCache[K, T]) Newest(key K, cached T, now time.Time) T {
	var none T
	c.mu.Lock()
	defer c.mu.Unlock()
	m, there := c.written[key]
	if !there || c.isOver(m, now) || cached == none && m.wasCached || cached != none && !Newer(m.Object, cached) {
		return cached
	}
	return m.Object
}

// All returns the written objects that are remembered.
func (c *MutationCache[K, T]) All() map[K]Mutation[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.written)
}

// CaughtUp drops a written object if the cache has it, or a newer one. Use it to save memory.
func (c *MutationCache[K, T]) CaughtUp(key K, cached T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, there := c.written[key]; there && !Newer(m.Object, cached) {
		c.drop(key)
	}
}

// Forget drops an object that was deleted, unless another object of its name was written.
func (c *MutationCache[K, T]) Forget(key K, deleted T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, there := c.written[key]; there && m.Object.GetUID() == deleted.GetUID() {
		c.drop(key)
	}
}

// drop drops an entry, and the map with the last one: most of the thousands of caches of a hub are empty.
func (c *MutationCache[K, T]) drop(key K) {
	delete(c.written, key)
	if len(c.written) == 0 {
		c.written = nil
	}
}

func (c *MutationCache[K, T]) life() time.Duration {
	if c.Life == 0 {
		return mutationLife
	}
	return c.Life
}

func (c *MutationCache[K, T]) isOver(m Mutation[T], now time.Time) bool {
	return now.Sub(m.At) > c.life()
}

// Newer reports whether object a was written after object b. It returns false if their versions cannot be compared.
func Newer(a, b Object) bool { return NewerVersion(a.GetResourceVersion(), b.GetResourceVersion()) }

// NewerVersion is Newer for resource versions.
func NewerVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
