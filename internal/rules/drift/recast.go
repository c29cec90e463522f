package drift

import (
	"strings"
)

// omittedValue marks a value that the Go type of a kind omits, usually a zero value. It matters only if the cluster has
// another value.
type omittedValue struct{ value any }

// recast converts the values of a desired object as its Go type does, so that 1000m becomes 1. It keeps fields that the type
// does not have.
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
				out[key] = omittedValue{value}
			default:
				out[key] = value // unknown to the type, but perhaps not to the server
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

// weaken marks the empty values in an object without a Go type.
func (k kind) weaken(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, field := range value {
			if isEmpty(field) || (k.zeroIsNothing && isZero(field)) {
				out[key] = omittedValue{field}
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

// servedFromTypes reports whether a group belongs to Kubernetes. Such groups are served from Go types even if this
// package has no built-in kind for them.
func servedFromTypes(group string) bool { return strings.HasSuffix(group, ".k8s.io") }

// isEmpty reports whether a value is nil or an empty map or list.
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

// isZero reports whether a value is empty or a zero value.
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

// plain removes the marks of omitted values.
func plain(value any) any {
	switch value := value.(type) {
	case omittedValue:
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
