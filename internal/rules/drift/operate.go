package drift

import (
	"slices"
	"strconv"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	opAdd     = "add"
	opReplace = "replace"
	// atEnd is the place after the last item of a list.
	atEnd = "-"
)

// operate applies an operation of a JSON patch to an object, which it changes. It changes nothing if the path does not
// exist in the object, or if the operation is invalid. It takes as long as its path, whatever the size of the object.
func operate(object map[string]any, operation fleet.Operation) {
	keys := keysOf(operation.Path)
	if len(keys) == 0 {
		return
	}
	var value any
	if operation.Value != "" {
		value = operation.Value
	}
	operateAt(object, keys, operation.Op, value)
}

// keysOf returns the keys in a JSON pointer. What precedes the first / is ignored.
func keysOf(pointer string) []string {
	keys := strings.Split(pointer, "/")[1:]
	for i, key := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
	}
	return keys
}

// operateAt applies an operation below a value. It returns the value, which is another one for a list of another length.
func operateAt(at any, keys []string, op string, value any) any {
	switch at := at.(type) {
	case map[string]any:
		inner, exists := at[keys[0]]
		switch {
		case len(keys) > 1 && exists:
			at[keys[0]] = operateAt(inner, keys[1:], op, value)
		case len(keys) > 1:
		case op == opRemove:
			delete(at, keys[0])
		case op == opAdd, op == opReplace:
			at[keys[0]] = value
		}
	case []any:
		return operateOnList(at, keys, op, value)
	}
	return at
}

func operateOnList(list []any, keys []string, op string, value any) []any {
	if len(keys) == 1 && op == opAdd {
		if keys[0] == atEnd {
			return append(list, value)
		}
		if i, ok := indexOf(keys[0], len(list)+1); ok {
			return slices.Insert(list, i, value)
		}
		return list
	}
	i, ok := indexOf(keys[0], len(list))
	switch {
	case !ok:
	case len(keys) > 1:
		list[i] = operateAt(list[i], keys[1:], op, value)
	case op == opRemove:
		return slices.Delete(list, i, i+1)
	case op == opReplace:
		list[i] = value
	}
	return list
}

// indexOf returns the place in a list that a key names. Negative numbers count from the end.
func indexOf(key string, length int) (i int, ok bool) {
	i, err := strconv.Atoi(key)
	if i < 0 {
		i += length
	}
	return i, err == nil && i >= 0 && i < length
}
