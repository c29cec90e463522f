package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patcher is the part of a controller's client that the patches need.
type Patcher[T Object] interface {
	Get(namespace, name string, options metav1.GetOptions) (T, error)
	Patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (T, error)
}

// patchAttempts is how often a patch is worked out anew after somebody else was faster. Each attempt starts from
// what is there then, so a handful is enough for any number of writers that do not fight.
const patchAttempts = 5

// PatchStatus writes the status fields that change alters, and only those, so that each field of a status
// can have an owner of its own. change gets a copy and may alter nothing but the status. Where it altered a list,
// such as the conditions, the write holds only if nobody wrote since; else change is asked again about what is
// there now. It returns what is there afterwards: read itself, if nothing was altered or the object is gone.
func PatchStatus[T Object](client Patcher[T], read T, change func(T)) (T, error) {
	return patch(client, read, change, "status")
}

// Patch is PatchStatus for everything but the status: metadata and spec. It always holds only if nobody wrote
// since.
func Patch[T Object](client Patcher[T], read T, change func(T)) (T, error) {
	return patch(client, read, change, "")
}

func patch[T Object](client Patcher[T], read T, change func(T), subresource string) (T, error) {
	current := read
	for attempt := 0; ; attempt++ {
		wanted, ok := current.DeepCopyObject().(T)
		if !ok {
			return read, fmt.Errorf("a copy of %T is %T", current, current.DeepCopyObject())
		}
		change(wanted)
		body, err := difference(current, wanted, subresource)
		if err != nil {
			return read, err
		}
		if body == nil {
			return current, nil
		}
		written, err := client.Patch(read.GetNamespace(), read.GetName(), types.MergePatchType, body, subresources(subresource)...)
		switch {
		case err == nil:
			return written, nil
		case apierrors.IsNotFound(err):
			return read, nil // gone: there is nothing to report to
		case !apierrors.IsConflict(err) || attempt == patchAttempts-1:
			return read, fmt.Errorf("patching %s: %w", keyOf(read), err)
		}
		current, err = Optional(client.Get(read.GetNamespace(), read.GetName(), metav1.GetOptions{}))
		if err != nil {
			return read, fmt.Errorf("reading %s again: %w", keyOf(read), err)
		}
		if isNil(current) || current.GetUID() != read.GetUID() {
			return read, nil // gone, or another object of that name: not ours to report about
		}
	}
}

func subresources(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

func isNil(obj any) bool {
	return obj == nil || reflect.ValueOf(obj).IsNil()
}

// difference is the merge patch from one state to the other, of the status or of everything else; nil when they
// do not differ. The first status is sent whole, with its zeros: readers tell none from not known by them. It holds
// only if nobody else was first.
func difference(from, to Object, subresource string) ([]byte, error) {
	var old, wanted any = from, to
	if subresource == "status" {
		old, wanted = statusOf(from), statusOf(to)
	}
	if equality.Semantic.DeepEqual(old, wanted) {
		return nil, nil // by far the most frequent, and cheaper to find than a difference
	}
	if subresource == "" {
		changes, _, err := changesOf(differing(old, wanted))
		delete(changes, "status")
		if err != nil || len(changes) == 0 {
			return nil, err
		}
		lock(changes, from.GetResourceVersion())
		return json.Marshal(changes)
	}
	first := reflect.ValueOf(old).Elem().IsZero()
	if first {
		old = map[string]any{}
	} else {
		old, wanted = differing(old, wanted)
	}
	changes, lists, err := changesOf(old, wanted)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	patch := map[string]any{"status": changes}
	if lists || first {
		lock(patch, from.GetResourceVersion())
	}
	return json.Marshal(patch)
}

// changesOf is the merge patch from one struct or map to another, and whether it replaces a list.
func changesOf(old, wanted any) (changes map[string]any, lists bool, err error) {
	before, err := toMap(old)
	if err != nil {
		return nil, false, err
	}
	after, err := toMap(wanted)
	if err != nil {
		return nil, false, err
	}
	changes, lists = mergeDiff(before, after)
	return changes, lists, nil
}

// differing points to copies of two structs of one type without the fields that are the same in both, which cost time
// to encode.
func differing(old, wanted any) (oldParts, wantedParts any) {
	was, is := reflect.ValueOf(old).Elem(), reflect.ValueOf(wanted).Elem()
	before, after := reflect.New(was.Type()), reflect.New(is.Type())
	for i := range was.NumField() {
		if !equality.Semantic.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			before.Elem().Field(i).Set(was.Field(i))
			after.Elem().Field(i).Set(is.Field(i))
		}
	}
	return before.Interface(), after.Interface()
}

// statusOf points to an object's status, without the rest of it, which may be much.
func statusOf(obj Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Status").Addr().Interface()
}

// lock lets the server refuse the patch if the object was written since this version.
func lock(changes map[string]any, version string) {
	meta, ok := changes["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		changes["metadata"] = meta
	}
	meta["resourceVersion"] = version
}

// mergeDiff is the JSON merge patch (RFC 7386) from one object to the other; lists says whether a list that is
// already there is replaced. Counts that were all zero are sent together: what was read does not tell zeros that
// are there from those that were never written, and readers expect all of them.
func mergeDiff(from, to map[string]any) (changes map[string]any, lists bool) {
	changes = map[string]any{}
	for key := range from {
		if _, stays := to[key]; !stays {
			changes[key] = nil
		}
	}
	for key, wanted := range to {
		found, there := from[key]
		if there && reflect.DeepEqual(found, wanted) {
			continue
		}
		inner, isMap := wanted.(map[string]any)
		outer, wasMap := found.(map[string]any)
		if isMap && wasMap && !areZero(outer) {
			nested, nestedLists := mergeDiff(outer, inner)
			changes[key], lists = nested, lists || nestedLists
			continue
		}
		_, isList := wanted.([]any)
		lists = lists || isList
		changes[key] = wanted
	}
	return changes, lists
}

// areZero says of counts that each of them is zero.
func areZero(counts map[string]any) bool {
	for _, count := range counts {
		if count != float64(0) {
			return false
		}
	}
	return len(counts) > 0
}

func toMap(obj any) (map[string]any, error) {
	encoded, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	return decoded, nil
}

func keyOf(obj Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
