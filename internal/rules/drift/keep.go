package drift

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// KeepIgnored returns the desired object with the live values of the fields that the rules and the autoscalers ignore, so that
// a correction does not change them. It leaves out such a field if the live object does not have it. If the live object lacks
// the map or the list item that contains the field, it keeps the desired value, because the field may be required. schema
// describes how lists are merged, and is nil if that is unknown. KeepIgnored returns in.Desired if there is no such field, and if the rules would find other differences
// in its result, because they remove an item in the middle of a list.
func KeepIgnored(in Input, schema strategicpatch.LookupPatchMeta) *unstructured.Unstructured {
	operations := in.Rules.operationsFor(in.Desired.GroupVersionKind(), in.Desired.Object)
	if isScaled(in) {
		operations = append(operations, fleet.Operation{Op: opRemove, Path: "/spec/replicas"})
	}
	if len(operations) == 0 {
		return in.Desired
	}
	out, live := in.Desired.DeepCopy(), in.Live.Object
	if isSecret(out.GroupVersionKind().GroupKind()) {
		EncodeStrings(out.Object)
	}
	for _, operation := range operations {
		if keys := keysOf(operation.Path); len(keys) > 0 {
			keepAt(out.Object, live, keys, operation.Op, schema)
		}
	}
	if !reflect.DeepEqual(without(operations, out), without(operations, in.Desired)) {
		return in.Desired
	}
	return out
}

// without returns an object as Compare sees it.
func without(operations []fleet.Operation, object *unstructured.Unstructured) map[string]any {
	out := normalise(object)
	for _, operation := range operations {
		operate(out, operation)
	}
	return out
}

// keepAt replaces the value that an operation concerns below a desired value by the live one. It returns the desired value, which
// is another one for a list of another length.
func keepAt(desired, live any, keys []string, op string, schema strategicpatch.LookupPatchMeta) any {
	switch desired := desired.(type) {
	case map[string]any:
		keepField(desired, live, keys, op, schema)
	case []any:
		return keepItem(desired, live, keys, op, listRule{})
	}
	return desired
}

func keepField(desired map[string]any, live any, keys []string, op string, schema strategicpatch.LookupPatchMeta) {
	have, known := live.(map[string]any)
	key := keys[0]
	value, wanted := desired[key]
	kept, exists := have[key]
	switch list, isList := value.([]any); {
	case !wanted || !known:
	case len(keys) == 1 && exists:
		desired[key] = runtime.DeepCopyJSONValue(kept)
	case len(keys) == 1:
		delete(desired, key)
	case isList:
		desired[key] = keepItem(list, kept, keys[1:], op, lookupList(schema, key))
	default:
		keepAt(value, kept, keys[1:], op, fieldsOf(schema, key))
	}
}

// fieldsOf returns how the lists in a field are merged, or nil if that is unknown.
func fieldsOf(schema strategicpatch.LookupPatchMeta, key string) strategicpatch.LookupPatchMeta {
	if schema == nil {
		return nil
	}
	inner, _, err := schema.LookupPatchMetadataForStruct(key)
	if err != nil {
		return nil
	}
	return inner
}

// keepItem is keepAt for a list.
func keepItem(desired []any, live any, keys []string, op string, rule listRule) []any {
	have, known := live.([]any)
	if !known {
		return desired
	}
	i, j := placesOf(keys[0], desired, have, rule)
	switch {
	case len(keys) == 1 && op == opAdd: // it adds an item to both lists
	case i >= 0 && j >= 0 && len(keys) > 1:
		desired[i] = keepAt(desired[i], have[j], keys[1:], op, rule.items)
	case i >= 0 && j >= 0:
		desired[i] = runtime.DeepCopyJSONValue(have[j])
	case len(keys) == 1 && op == opRemove:
		return keepLength(desired, have, i, j)
	}
	return desired
}

// placesOf returns the places of an item in both lists, -1 for a list without it. An item that only a live list that is merged
// has needs no place, because a patch does not change it.
func placesOf(key string, desired, live []any, rule listRule) (i, j int) {
	i, wanted := indexOf(key, len(desired))
	j, exists := indexOf(key, len(live))
	switch {
	case !wanted && (!exists || rule.merged):
		return -1, -1
	case !wanted:
		return -1, j
	case rule.merged:
		return i, counterpart(live, desired[i], i, rule.key)
	case !exists:
		return i, -1
	}
	return i, j
}

// keepLength adds or removes an item that only one of the lists has.
func keepLength(desired, live []any, i, j int) []any {
	switch {
	case i >= 0:
		return slices.Delete(desired, i, i+1)
	case j == len(desired):
		return append(desired, runtime.DeepCopyJSONValue(live[j]))
	}
	return desired
}

// counterpart returns the place of an item in a live list that is merged by a key, or as a set if key is empty. It returns -1 if
// the live list does not have the item. It prefers the same place, because the key need not be unique.
func counterpart(live []any, item any, at int, key string) int {
	same := func(have any) bool {
		if key == "" {
			return identify(have) == identify(item)
		}
		return identify(keyOf(have, key)) == identify(keyOf(item, key))
	}
	if at < len(live) && same(live[at]) {
		return at
	}
	return slices.IndexFunc(live, same)
}
