package v1alpha1

import (
	"encoding/json"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// GenericMap is a JSON object of any content. It is written as that object, a nil
// Data as null. Whole numbers are read as int64 and keep all their digits.
//
// +kubebuilder:validation:Type=object
// +kubebuilder:pruning:PreserveUnknownFields
type GenericMap struct {
	// Data is the object, as JSON would decode it: string, bool, int64, float64,
	// nil, []any and map[string]any.
	Data map[string]any `json:"-"`
}

// MarshalJSON writes the bare object.
func (m GenericMap) MarshalJSON() ([]byte, error) {
	return json.Marshal(m.Data)
}

// UnmarshalJSON reads the bare object; null becomes a nil map.
func (m *GenericMap) UnmarshalJSON(text []byte) error {
	m.Data = nil
	return utiljson.Unmarshal(text, &m.Data)
}

// DeepCopyInto copies nested objects and lists; every other value is immutable
// and is shared.
func (m *GenericMap) DeepCopyInto(out *GenericMap) {
	out.Data = copyObject(m.Data)
}

func copyObject(in map[string]any) map[string]any {
	if in == nil {
		return nil
	}
	out := make(map[string]any, len(in))
	for key, value := range in {
		out[key] = copyValue(value)
	}
	return out
}

func copyValue(in any) any {
	switch value := in.(type) {
	case map[string]any:
		return copyObject(value)
	case []any:
		if value == nil {
			return value
		}
		out := make([]any, len(value))
		for i := range value {
			out[i] = copyValue(value[i])
		}
		return out
	default:
		return value
	}
}
