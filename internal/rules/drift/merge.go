package drift

import (
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Strategies of strategic merge patches, as named by the tags of the built-in kinds.
const (
	strategyMerge      = "merge"
	strategyRetainKeys = "retainKeys"
)

// merge returns live with everything in want. The result shares unchanged parts with both. schema is nil for unknown
// types. strategy is the strategy in the field's tag.
func merge(live, want any, schema strategicpatch.LookupPatchMeta, strategy string) any {
	switch want := want.(type) {
	case omittedValue:
		return mergeUnspoken(live, want.value)
	case map[string]any:
		if have, ok := live.(map[string]any); ok {
			return mergeMap(have, want, schema, strategy)
		}
		return plain(want)
	case nil:
		return live
	}
	if sameScalar(live, want) {
		return live
	}
	return plain(want)
}

// mergeUnspoken applies an empty value only where the server sets no default: it turns true into false, and empties
// most lists (see filledByServer).
func mergeUnspoken(live, want any) any {
	switch want := want.(type) {
	case bool:
		return want
	case []any:
		return want
	}
	return live
}

func mergeMap(live, want map[string]any, schema strategicpatch.LookupPatchMeta, strategy string) any {
	out := maps.Clone(live)
	for key, value := range want {
		have, there := live[key]
		mark, isOmitted := value.(omittedValue)
		if value == nil || (isOmitted && (!there || have == nil || filledByServer(key, mark.value))) {
			continue
		}
		out[key] = mergeField(have, value, key, schema)
	}
	if strategy == strategyRetainKeys && !reflect.DeepEqual(out, live) {
		maps.DeleteFunc(out, func(key string, _ any) bool { _, wanted := want[key]; return !wanted })
	}
	return out
}

// filledByServer reports whether the server fills a list if it is empty.
func filledByServer(key string, value any) bool {
	list, ok := value.([]any)
	return ok && len(list) == 0 && (key == "policyTypes" || key == "metrics")
}

// extendedByServer reports whether the server or its controllers add to a list: every pod gets tolerations for
// unavailable nodes, and taints describe the state of a node.
func extendedByServer(key string) bool { return key == "tolerations" || key == "taints" }

func mergeField(live, want any, key string, schema strategicpatch.LookupPatchMeta) any {
	list, isList := want.([]any)
	if mark, ok := want.(omittedValue); ok {
		list, isList = mark.value.([]any)
	}
	if isList {
		rule := lookupList(schema, key)
		rule.open = schema != nil && !rule.merged && extendedByServer(key)
		return mergeList(live, list, rule)
	}
	if schema == nil {
		return merge(live, want, nil, "")
	}
	inner, meta, err := schema.LookupPatchMetadataForStruct(key)
	if err != nil {
		return merge(live, want, nil, "") // a field with its own encoding, or unknown to the type
	}
	return merge(live, want, inner, strategyOf(meta, strategyRetainKeys))
}

// sameScalar compares two values that are neither maps nor lists. Numbers are equal in any representation.
func sameScalar(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return reflect.DeepEqual(a, b)
	}
	if number(a) && number(b) {
		return fmt.Sprint(a) == fmt.Sprint(b) || asFloat(a) == asFloat(b)
	}
	return reflect.DeepEqual(a, b)
}

func number(value any) bool {
	switch value.(type) {
	case int64, float64:
		return true
	}
	return false
}

func asFloat(value any) float64 {
	switch value := value.(type) {
	case int64:
		return float64(value)
	case float64:
		return value
	}
	return 0
}
