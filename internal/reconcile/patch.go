package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Getter is the part of a controller's client that reads from the API server.
type Getter[T Object] interface {
	Get(namespace, name string, options metav1.GetOptions) (T, error)
}

// Patcher is the part of a controller's client that a patch needs.
type Patcher[T Object] interface {
	Getter[T]
	Patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (T, error)
}

// writeAttempts is how often a write is tried after conflicts. Each attempt starts from the current object, so a few
// are enough unless writers keep overwriting each other.
const writeAttempts = 5

// Patch writes the changes that change makes to an object's metadata and spec. change gets a copy. The patch contains
// the resource version, and after a conflict change is called again with the current object. Patch returns the object
// afterwards: read itself if nothing changed or the object is gone.
func Patch[T Object](client Patcher[T], read T, change func(T)) (T, error) {
	return write(client, read, change, func(current, wanted T) (T, error) {
		changes, err := difference(current, wanted)
		if err != nil || len(changes) == 0 {
			return current, err
		}
		return sendPatch(client, current, changes)
	})
}

// sendPatch sends a patch with the resource version of the current object, so that the server refuses it if the object
// was written since.
func sendPatch[T Object](client Patcher[T], current T, changes map[string]any, subresources ...string) (T, error) {
	meta, ok := changes["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		changes["metadata"] = meta
	}
	meta["resourceVersion"] = current.GetResourceVersion()
	body, err := json.Marshal(changes)
	if err != nil {
		return current, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.Patch(current.GetNamespace(), current.GetName(), types.MergePatchType, body, subresources...)
}

// Updater is the part of a controller's client that an update needs.
type Updater[T Object] interface {
	Getter[T]
	Update(T) (T, error)
}

// Update is Patch for objects whose metadata and spec only controllers of this project change, and that caches hold
// completely. It sends the whole object, and the API server no longer records which manager owns which field. The
// first makes this write cheaper for the API server, the second every later one.
func Update[T Object](client Updater[T], read T, change func(T)) (T, error) {
	return write(client, read, change, func(current, wanted T) (T, error) {
		if changes, err := difference(current, wanted); err != nil || len(changes) == 0 {
			return current, err
		}
		wanted.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // removes all entries; an empty list would keep them
		return client.Update(wanted)
	})
}

// write calls send with the current object and the result of change. send writes the difference; without a difference
// it returns current. After a conflict both are called again with the object as it is then.
func write[T Object](client Getter[T], read T, change func(T), send func(current, wanted T) (T, error)) (T, error) {
	current := read
	for attempt := 0; ; attempt++ {
		wanted, ok := current.DeepCopyObject().(T)
		if !ok {
			return read, fmt.Errorf("copying %T: the copy is a %T", current, current.DeepCopyObject())
		}
		change(wanted)
		written, err := send(current, wanted)
		switch {
		case err == nil:
			return written, nil
		case apierrors.IsNotFound(err):
			return read, nil // gone: there is nothing to update
		case !apierrors.IsConflict(err) || attempt == writeAttempts-1:
			return read, fmt.Errorf("writing %s: %w", KeyOf(read), err)
		}
		current, err = Optional(client.Get(read.GetNamespace(), read.GetName(), metav1.GetOptions{}))
		if err != nil {
			return read, fmt.Errorf("reading %s again: %w", KeyOf(read), err)
		}
		if isNil(current) || current.GetUID() != read.GetUID() {
			return read, nil // gone, or another object of that name: nothing to update
		}
	}
}

func isNil(obj any) bool {
	return obj == nil || reflect.ValueOf(obj).IsNil()
}

// difference returns the merge patch from one object to the other, without the status. It is empty if they do not
// differ.
func difference(from, to Object) (map[string]any, error) {
	if Equal(from, to) {
		return nil, nil // the most frequent case, and cheaper to find than a difference
	}
	changes, err := changesOf(from, to)
	delete(changes, "status")
	return changes, err
}

// changesOf returns the merge patch from one struct to another of the same type.
func changesOf(old, wanted any) (map[string]any, error) { return mergePatch(differing(old, wanted)) }

// differing returns pointers to copies of two structs of one type that contain only the fields that differ. Encoding
// equal fields would cost time.
func differing(old, wanted any) (oldParts, wantedParts any) {
	was, is := reflect.ValueOf(old).Elem(), reflect.ValueOf(wanted).Elem()
	before, after := reflect.New(was.Type()), reflect.New(is.Type())
	for i := range was.NumField() {
		if !Equal(was.Field(i).Interface(), is.Field(i).Interface()) {
			before.Elem().Field(i).Set(was.Field(i))
			after.Elem().Field(i).Set(is.Field(i))
		}
	}
	return before.Interface(), after.Interface()
}

// mergePatch returns the JSON merge patch from one value to the other. Both are encoded as JSON objects.
func mergePatch(from, to any) (changes map[string]any, err error) {
	var texts [2][]byte
	for i, value := range []any{from, to} {
		if texts[i], err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("encoding %T: %w", value, err)
		}
	}
	patch, err := jsonpatch.CreateMergePatch(texts[0], texts[1])
	if err == nil {
		err = json.Unmarshal(patch, &changes)
	}
	if err != nil {
		return nil, fmt.Errorf("comparing two of %T: %w", from, err)
	}
	return changes, nil
}

// KeyOf returns the namespace and name of an object.
func KeyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
