package reconcile

import (
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
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
		whole, err := onlyStatus(current, wanted)
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

// onlyStatus returns an object that contains only the status of wanted and the metadata of current. An API server ignores
// everything else in an update of a status. Kubernetes 1.31 forgets who manages labels and other metadata that are missing
// in the update, and then the next server-side apply of a user no longer removes them.
func onlyStatus[T Object](current, wanted T) (T, error) {
	value := reflect.New(reflect.TypeOf(wanted).Elem())
	part, ok := value.Interface().(T)
	if !ok {
		return wanted, fmt.Errorf("creating a new %T: unexpected type %s", wanted, value.Type())
	}
	value.Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(current).Elem().FieldByName("ObjectMeta"))
	part.SetManagedFields(nil) // the API server keeps its own
	annotations := maps.Clone(part.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation) // it may be large, and only its value matters to kubectl
	part.SetAnnotations(annotations)
	value.Elem().FieldByName("Status").Set(reflect.ValueOf(wanted).Elem().FieldByName("Status"))
	return part, nil
}
