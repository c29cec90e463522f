package drift

import (
	"strings"
)

// unspoken is a value that the type of a kind writes as if it were not there: a zero value, most likely. It says
// something only if the cluster has something else.
type unspoken struct{ value any }

// recast writes the values of a desired object the way its type does, and leaves its fields as they are.
func (k kind) recast(desired map[string]any) any {
	if converted, ok := k.convert(desired); ok {
		return recastAs(desired, converted)
	}
	return k.weaken(desired)
}

func recastAs(raw, converted any) any {
	switch raw := raw.(type) {
	case map[string]any:
		typed, ok := converted.(map[string]any)
		if !ok {
			return converted
		}
		out := make(map[string]any, len(raw))
		for key, value := range raw {
			kept, isKept := typed[key]
			switch {
			case isKept:
				out[key] = recastAs(value, kept)
			case isZero(value):
				out[key] = unspoken{value}
			default:
				out[key] = value // the type does not know it; the server may
			}
		}
		return out
	case []any:
		typed, ok := converted.([]any)
		if !ok || len(typed) != len(raw) {
			return converted
		}
		out := make([]any, len(raw))
		for i := range raw {
			out[i] = recastAs(raw[i], typed[i])
		}
		return out
	case nil:
		return nil
	}
	return converted
}

// weaken marks what says nothing in an object without a type.
func (k kind) weaken(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, field := range value {
			if isEmpty(field) || (k.zeroIsNothing && isZero(field)) {
				out[key] = unspoken{field}
				continue
			}
			out[key] = k.weaken(field)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = k.weaken(value[i])
		}
		return out
	}
	return value
}

// servedFromTypes tells the groups of Kubernetes itself: what has no built-in kind there is served from types
// all the same.
func servedFromTypes(group string) bool { return strings.HasSuffix(group, ".k8s.io") }

// isEmpty tells nothing, and what holds nothing.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// isZero tells what is empty, and zero values.
func isZero(value any) bool {
	switch value := value.(type) {
	case string:
		return value == ""
	case bool:
		return !value
	case int64:
		return value == 0
	case float64:
		return value == 0
	}
	return isEmpty(value)
}

// plain takes the marks off again.
func plain(value any) any {
	switch value := value.(type) {
	case unspoken:
		return value.value
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, field := range value {
			out[key] = plain(field)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = plain(value[i])
		}
		return out
	}
	return value
}
