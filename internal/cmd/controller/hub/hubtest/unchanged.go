package hubtest

import (
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// A cached object and a copy of it from when it got into the cache.
type cached struct{ object, before Object }

// remember keeps a copy of an object that gets into a cache.
func (h *Hub) remember(object Object) error {
	before, ok := object.DeepCopyObject().(Object)
	if !ok {
		return unexpected("copy of an object")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cached = append(h.cached, cached{object, before})
	return nil
}

// expectUnchanged fails if a controller has changed an object in a cache. Objects share maps and lists, so that the change
// would reach others, and no write.
func (h *Hub) expectUnchanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.cached {
		if !reflect.DeepEqual(c.object, c.before) {
			h.t.Errorf("a cached %T was changed (-before +now):\n%s", c.object, cmp.Diff(c.before, c.object))
		}
	}
}
