package undecodable

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// decodeFields decodes a document into an empty object without what the object's type cannot hold: top-level fields, or
// fields directly below such as spec.paused. It returns their names, or an error if the document is not a JSON object.
func decodeFields(raw []byte, into runtime.Object) (fields []string, err error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	decodes := func(document any) bool { return decodeAgain(document, into.DeepCopyObject()) == nil }
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if decodes(map[string]any{name: parts[name]}) {
			continue
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(parts[name], &inner) != nil {
			fields = append(fields, name)
			delete(parts, name)
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(inner)) {
			if !decodes(map[string]any{name: map[string]any{field: inner[field]}}) {
				fields = append(fields, name+"."+field)
				delete(inner, field)
			}
		}
		if parts[name], err = json.Marshal(inner); err != nil {
			return nil, err
		}
	}
	return fields, decodeAgain(parts, into)
}

func decodeAgain(document any, into runtime.Object) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// decodeItems decodes each object of a list on its own with decodeFields. empty returns an empty object of their kind.
func decodeItems(raw []byte, into runtime.Object, empty func() runtime.Object, note func(runtime.Object, []string)) error {
	var list struct {
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	objects := make([]runtime.Object, len(list.Items))
	for i, item := range list.Items {
		objects[i] = empty()
		fields, err := decodeFields(item, objects[i])
		if err != nil {
			return err
		}
		note(objects[i], fields)
	}
	accessor, err := meta.ListAccessor(into)
	if err != nil {
		return err
	}
	accessor.SetResourceVersion(list.ResourceVersion)
	accessor.SetContinue(list.Continue)
	accessor.SetRemainingItemCount(list.RemainingItemCount)
	return meta.SetList(into, objects)
}

// isStatus reports whether a field belongs to the status.
func isStatus(field string) bool { return field == "status" || strings.HasPrefix(field, "status.") }
