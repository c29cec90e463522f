package reconcile

import (
	"fmt"
	"reflect"
)

// StatusClient is the part of a controller's client that writing a status needs.
type StatusClient[T Object] interface {
	Getter[T]
	UpdateStatus(T) (T, error)
}

// WriteStatus writes the changes that change makes to an object's status. change gets a copy and may change only the
// status. The whole status is sent, which costs the API server less than a patch. After a conflict change is called
// again with the current object, so each field of a status can have a different owner. WriteStatus returns the object
// afterwards: read itself if nothing changed or the object is gone.
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

// PatchStatus is WriteStatus for objects whose status is incomplete in the cache: it sends only the changes.
func PatchStatus[T Object](client Patcher[T], read T, change func(T)) (T, error) {
	return write(client, read, change, func(current, wanted T) (T, error) {
		changes, err := changesOf(statusOf(current), statusOf(wanted))
		if err != nil || len(changes) == 0 {
			return current, err
		}
		return sendPatch(client, current, map[string]any{"status": changes}, "status")
	})
}

// statusDiffers reports whether two statuses are encoded differently. The first status of an object is always
// written, because readers distinguish zero values from a missing status.
func statusDiffers(from, to Object) (bool, error) {
	old, wanted := statusOf(from), statusOf(to)
	if Equal(old, wanted) {
		return false, nil // the most frequent case, and cheaper to find than a difference
	}
	if reflect.ValueOf(old).Elem().IsZero() {
		return true, nil
	}
	changes, err := changesOf(old, wanted)
	return len(changes) > 0, err
}

// statusOf returns a pointer to an object's status.
func statusOf(obj Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Status").Addr().Interface()
}

// onlyStatus returns an object that contains only the status and the identifying metadata. An API server ignores
// everything else in an update of a status.
func onlyStatus[T Object](of T) (T, error) {
	value := reflect.New(reflect.TypeOf(of).Elem())
	part, ok := value.Interface().(T)
	if !ok {
		return of, fmt.Errorf("creating a new %T: unexpected type %s", of, value.Type())
	}
	part.SetNamespace(of.GetNamespace())
	part.SetName(of.GetName())
	part.SetUID(of.GetUID())
	part.SetResourceVersion(of.GetResourceVersion())
	value.Elem().FieldByName("Status").Set(reflect.ValueOf(of).Elem().FieldByName("Status"))
	return part, nil
}
