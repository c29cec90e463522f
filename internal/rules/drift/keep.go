package drift

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// KeepIgnored returns the desired object with the live values of the fields that the rules and the autoscalers ignore, so that
// a correction does not change them. It leaves out such a field if the live object does not have it. If the live object lacks
// the map or the list item that contains the field, it keeps the desired value, because the field may be required. replaced
// means that the object will be replaced: then ignored fields that only the live object has are added.
//
// schema describes how lists are merged, and is nil if that is unknown. A field in an item of a list that is not merged by a key
// keeps its desired value, because it is unknown which live item is the same one. KeepIgnored returns in.Desired if nothing in
// the object is ignored, and if the rules would find other differences in its result.
func KeepIgnored(in Input, schema strategicpatch.LookupPatchMeta, replaced bool) *unstructured.Unstructured {
	operations := in.Rules.operationsFor(in.Desired.GroupVersionKind(), in.Desired.Object)
	if isScaled(in) {
		operations = append(operations, fleet.Operation{Op: opRemove, Path: "/spec/replicas"})
	}
	if len(operations) == 0 {
		return in.Desired
	}
	out, live := in.Desired.DeepCopy(), in.Live.DeepCopy().Object // out shares values with this copy
	if isSecret(out.GroupVersionKind().GroupKind()) {
		EncodeStrings(out.Object)
	}
	for _, operation := range operations {
		if keys := keysOf(operation.Path); len(keys) > 0 {
			keepField(out.Object, live, keys, replaced && operation.Op != opAdd, schema)
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

// keepField replaces the value at a path below a desired value by the live one. add means that it adds a value that only the live
// object has.
func keepField(desired, live any, keys []string, add bool, schema strategicpatch.LookupPatchMeta) {
	fields, isMap := desired.(map[string]any)
	have, known := live.(map[string]any)
	if !isMap || !known {
		return
	}
	key := keys[0]
	value, wanted := fields[key]
	kept, exists := have[key]
	switch list, isList := value.([]any); {
	case !wanted && !add:
	case len(keys) == 1 && exists:
		fields[key] = kept
	case len(keys) == 1:
		delete(fields, key)
	case isList:
		keepItem(list, kept, keys[1:], add, lookupList(schema, key))
	default:
		keepField(value, kept, keys[1:], add, fieldsOf(schema, key))
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

// keepItem is keepField for a list.
func keepItem(desired []any, live any, keys []string, add bool, rule listRule) {
	have, known := live.([]any)
	at, found := indexOf(keys[0], len(desired))
	if !known || !found || len(keys) == 1 || !rule.merged || rule.key == "" {
		return
	}
	if same := counterpart(have, desired[at], at, rule.key); same >= 0 {
		keepField(desired[at], have[same], keys[1:], add, rule.items)
	}
}

// counterpart returns the place of an item in a live list that is merged by a key, or -1. It looks at the same place first, because
// the key need not be unique, and then at the places around it.
func counterpart(live []any, item any, at int, key string) int {
	wanted := identify(keyOf(item, key))
	same := func(have any) bool { return identify(keyOf(have, key)) == wanted }
	if at < len(live) && same(live[at]) {
		return at
	}
	first := min(max(0, at-mostTried), len(live))
	place := slices.IndexFunc(live[first:min(at+mostTried, len(live))], same)
	if place < 0 {
		return -1
	}
	return first + place
}
