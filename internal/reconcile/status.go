package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
)

// StatusClient is the part of a controller's client that writing a status needs.
type StatusClient[T Object] interface {
	Getter[T]
	UpdateStatus(T) (T, error)
}

// WriteStatus writes a status as change alters it. change gets a copy and may alter nothing but the status. The whole
// status is sent, which costs an API server a good part less than a patch, and the write holds only if nobody wrote
// since; else change is asked again about what is there now. So of the fields of a status each can have an owner of its
// own. It returns what is there afterwards: read itself, if nothing was altered or the object is gone.
func WriteStatus[T Object](client StatusClient[T], read T, change func(T)) (T, error) {
	return write(client, read, change, func(current, wanted T) (T, error) {
		differs, err := statusDiffers(current, wanted)
		if err != nil || !differs {
			return current, err
		}
		whole, err := onlyStatus(wanted)
		if err != nil {
			return current, err
		}
		return client.UpdateStatus(whole)
	})
}

// PatchStatus is WriteStatus for objects of which a cache does not hold the whole status: only what change alters is
// sent.
func PatchStatus[T Object](client Patcher[T], read T, change func(T)) (T, error) {
	return write(client, read, change, func(current, wanted T) (T, error) {
		changes, err := changesOf(statusOf(current), statusOf(wanted))
		if err != nil || len(changes) == 0 {
			return current, err
		}
		patch := map[string]any{"status": changes}
		lock(patch, current.GetResourceVersion())
		body, err := json.Marshal(patch)
		if err != nil {
			return current, fmt.Errorf("encoding a patch: %w", err)
		}
		return client.Patch(read.GetNamespace(), read.GetName(), types.MergePatchType, body, "status")
	})
}

// statusDiffers says whether two statuses are written differently. The first one always is: readers tell zeros from
// nothing.
func statusDiffers(from, to Object) (bool, error) {
	old, wanted := statusOf(from), statusOf(to)
	if Equal(old, wanted) {
		return false, nil // by far the most frequent, and cheaper to find than a difference
	}
	if reflect.ValueOf(old).Elem().IsZero() {
		return true, nil
	}
	changes, err := changesOf(old, wanted)
	return len(changes) > 0, err
}

// statusOf points to an object's status, without the rest of it, which may be much.
func statusOf(obj Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Status").Addr().Interface()
}

// onlyStatus is an object with its status and with what names it: all that an API server takes from an update of a
// status.
func onlyStatus[T Object](of T) (T, error) {
	value := reflect.New(reflect.TypeOf(of).Elem())
	part, ok := value.Interface().(T)
	if !ok {
		return of, fmt.Errorf("a new %T is %s", of, value.Type())
	}
	part.SetNamespace(of.GetNamespace())
	part.SetName(of.GetName())
	part.SetUID(of.GetUID())
	part.SetResourceVersion(of.GetResourceVersion())
	value.Elem().FieldByName("Status").Set(reflect.ValueOf(of).Elem().FieldByName("Status"))
	return part, nil
}
