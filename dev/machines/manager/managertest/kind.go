package managertest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/rancher/wrangler/v3/pkg/generic"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// kind is the client and the cache of a kind. Other methods of the interface panic: tests call a controller's handler
// directly.
type kind[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]
	store *Store
}

func (k *kind[T, L]) name() string {
	var none T
	return nameOfKind(none)
}

func (k *kind[T, L]) key(namespace, name string) string {
	return k.name() + " " + namespace + "/" + name
}

func (k *kind[T, L]) find(objects map[string]Object, namespace, name string) (T, error) {
	found, exists := objects[k.key(namespace, name)].(T)
	if !exists {
		return found, apierrors.NewNotFound(schema.GroupResource{Resource: k.name()}, name)
	}
	return copyOf(found), nil
}

// Get returns the current object.
func (k *kind[T, L]) Get(namespace, name string, _ metav1.GetOptions) (T, error) {
	return k.find(k.store.objects, namespace, name)
}

// Create creates an object with a UID that is its key and version.
func (k *kind[T, L]) Create(obj T) (T, error) {
	if err := k.store.fail("create " + k.name()); err != nil {
		return obj, err
	}
	if _, err := k.find(k.store.objects, obj.GetNamespace(), obj.GetName()); err == nil {
		return obj, apierrors.NewAlreadyExists(schema.GroupResource{Resource: k.name()}, obj.GetName())
	}
	created := copyOf(obj)
	created.SetUID(types.UID(fmt.Sprintf("uid-%d", k.store.version+1)))
	k.store.put(created)
	return copyOf(created), nil
}

// Update replaces an object, except its status.
func (k *kind[T, L]) Update(obj T) (T, error) {
	return k.write("update", obj, func(current, wanted T) (T, error) {
		if status := statusOf(wanted); status.IsValid() {
			status.Set(statusOf(current))
		}
		return wanted, nil
	})
}

// UpdateStatus replaces the status of an object.
func (k *kind[T, L]) UpdateStatus(obj T) (T, error) {
	return k.write("status", obj, func(current, wanted T) (T, error) {
		statusOf(current).Set(statusOf(wanted))
		return current, nil
	})
}

// Patch applies a merge patch.
func (k *kind[T, L]) Patch(namespace, name string, _ types.PatchType, data []byte, _ ...string) (T, error) {
	var meta struct{ Metadata metav1.ObjectMeta }
	var none T
	if err := json.Unmarshal(data, &meta); err != nil {
		return none, err
	}
	target, err := k.Get(namespace, name, metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	if meta.Metadata.ResourceVersion != "" {
		target.SetResourceVersion(meta.Metadata.ResourceVersion)
	}
	return k.write("patch", target, func(current, _ T) (T, error) {
		before, err := json.Marshal(current)
		if err != nil {
			return none, err
		}
		after, err := jsonpatch.MergePatch(before, data)
		if err != nil {
			return none, err
		}
		patched, _ := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T) // T is a pointer to a struct
		return patched, json.Unmarshal(after, patched)
	})
}

// write replaces an object by what change returns, unless the object was written since it was read.
func (k *kind[T, L]) write(verb string, obj T, change func(current, wanted T) (T, error)) (T, error) {
	if err := k.store.fail(verb + " " + k.name()); err != nil {
		return obj, err
	}
	current, err := k.find(k.store.objects, obj.GetNamespace(), obj.GetName())
	if err != nil {
		return obj, err
	}
	if obj.GetResourceVersion() != current.GetResourceVersion() {
		return obj, apierrors.NewConflict(schema.GroupResource{Resource: k.name()}, obj.GetName(), fmt.Errorf("the object has been modified"))
	}
	changed, err := change(current, copyOf(obj))
	if err != nil {
		return obj, err
	}
	k.store.put(changed)
	return copyOf(changed), nil
}

// Delete requests the deletion of an object.
func (k *kind[T, L]) Delete(namespace, name string, _ *metav1.DeleteOptions) error {
	if err := k.store.fail("delete " + k.name()); err != nil {
		return err
	}
	found, err := k.find(k.store.objects, namespace, name)
	if err != nil {
		return err
	}
	k.store.Delete(found)
	return nil
}

func statusOf(obj any) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByName("Status") }

// EnqueueAfter records the key.
func (k *kind[T, L]) EnqueueAfter(namespace, name string, after time.Duration) {
	k.store.Enqueued = append(k.store.Enqueued, fmt.Sprintf("%s %s", k.key(namespace, name), after))
}

// Cache returns the cache.
func (k *kind[T, L]) Cache() generic.CacheInterface[T] { return memory[T, L]{kind: k} }

type memory[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.CacheInterface[T]
	kind *kind[T, L]
}

func (m memory[T, L]) objects() map[string]Object {
	if m.kind.store.cached != nil {
		return m.kind.store.cached
	}
	return m.kind.store.objects
}

// Get returns the cached object.
func (m memory[T, L]) Get(namespace, name string) (T, error) {
	return m.kind.find(m.objects(), namespace, name)
}

// List returns the cached objects of a namespace.
func (m memory[T, L]) List(namespace string, selector labels.Selector) (found []T, _ error) {
	for _, obj := range m.objects() {
		if item, ok := obj.(T); ok && item.GetNamespace() == namespace && selector.Matches(labels.Set(item.GetLabels())) {
			found = append(found, copyOf(item))
		}
	}
	return found, nil
}
