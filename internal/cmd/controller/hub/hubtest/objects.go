package hubtest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// anyKind is a kind without its Go type.
type anyKind interface {
	// takes reports whether the cache of the kind selects the object.
	takes(Object) bool
	see(Object) error
	reach(version uint64)
	unsee(namespace, name string)
	spoil(namespace, name string)
	clear()
	kind() string
	handle(key string) error
}

// Put creates or replaces objects on the server and in the caches that select them.
func (h *Hub) Put(objects ...Object) {
	h.t.Helper()
	h.Have(objects...)
	for _, obj := range objects {
		h.See(h.stored(obj))
	}
}

// Have puts objects only on the server, so that the caches are stale.
func (h *Hub) Have(objects ...Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, obj := range objects {
		h.store(obj.DeepCopyObject().(Object))
	}
}

// See puts objects only into the caches, unchanged.
func (h *Hub) See(objects ...Object) {
	h.t.Helper()
	for _, obj := range objects {
		for _, kind := range h.kinds {
			if !kind.takes(obj) {
				continue
			}
			if err := kind.see(obj); err != nil {
				h.t.Fatalf("filling a cache: %v", err)
			}
		}
	}
}

// Sync makes the caches equal to the server.
func (h *Hub) Sync() {
	h.t.Helper()
	for _, kind := range h.kinds {
		kind.clear()
	}
	h.mu.Lock()
	objects, reached := make([]Object, 0, len(h.objects)), h.versions
	for _, obj := range h.objects {
		objects = append(objects, obj)
	}
	h.mu.Unlock()
	h.See(objects...)
	for _, kind := range h.kinds {
		kind.reach(reached)
	}
}

// Follow puts the objects that were written since the last call into the caches, as watches do. Unlike Sync it costs
// nothing for the others, and does not notice deletions.
func (h *Hub) Follow() {
	h.t.Helper()
	h.mu.Lock()
	current := slices.DeleteFunc(h.written, func(o Object) bool { return h.objects[id(o, o.GetNamespace(), o.GetName())] != o })
	h.written = nil
	h.mu.Unlock()
	h.See(current...)
}

// Remove removes an object from the server and from the caches.
func (h *Hub) Remove(obj Object) {
	h.mu.Lock()
	delete(h.objects, id(obj, obj.GetNamespace(), obj.GetName()))
	h.versions++
	reached := h.versions
	h.mu.Unlock()
	for _, kind := range h.kinds {
		if kind.takes(obj) {
			kind.unsee(obj.GetNamespace(), obj.GetName())
			kind.reach(reached)
		}
	}
}

// Live returns an object on the server without its version, or nil.
func (h *Hub) Live(like Object) Object {
	found := h.stored(like)
	if found == nil {
		return nil
	}
	found, _ = found.DeepCopyObject().(Object) // a copy has the same type
	found.SetResourceVersion("")
	return found
}

// Spoil makes the caches return something other than an object for this key, which is an error.
func (h *Hub) Spoil(obj Object) {
	for _, kind := range h.kinds {
		if kind.takes(obj) {
			kind.spoil(obj.GetNamespace(), obj.GetName())
		}
	}
}

// Handle calls the handlers of a kind with the cached object of the key ("ns/name"), as its work queue does.
func (h *Hub) Handle(kind, key string) error {
	h.t.Helper()
	for _, k := range h.kinds {
		if k.kind() == kind {
			return k.handle(key)
		}
	}
	h.t.Fatalf("no kind %s", kind)
	return nil
}

// Get returns an object on the server, or nil.
func Get[T Object](h *Hub, namespace, name string) T {
	var none T
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.objects[id(none, namespace, name)].(T)
	if !ok {
		return none
	}
	return found.DeepCopyObject().(T)
}

// MustGet is Get for an object that must exist.
func MustGet[T Object](t testing.TB, h *Hub, namespace, name string) T {
	t.Helper()
	found := Get[T](h, namespace, name)
	if reflect.ValueOf(found).IsNil() {
		t.Fatalf("there is no %T %s/%s", found, namespace, name)
	}
	return found
}

func (h *Hub) stored(obj Object) Object {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.objects[id(obj, obj.GetNamespace(), obj.GetName())]
}

// store puts an object on the server. It sets a version, and a UID and a creation time if they are missing. The caller
// holds the lock.
func (h *Hub) store(obj Object) {
	h.versions++
	obj.SetResourceVersion(fmt.Sprint(h.versions))
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", h.versions)))
	}
	if obj.GetCreationTimestamp().Time.IsZero() {
		obj.SetCreationTimestamp(metav1.NewTime(h.now))
	}
	h.objects[id(obj, obj.GetNamespace(), obj.GetName())] = obj
	h.written = append(h.written, obj)
}

func id(obj Object, namespace, name string) string {
	return reflect.TypeOf(obj).Elem().Name() + " " + keyOf(namespace, name)
}
