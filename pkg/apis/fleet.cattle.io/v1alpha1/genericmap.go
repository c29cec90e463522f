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
	// Data is the object, as JSON would decode it: string, bool, int64, float64, nil, []any and map[string]any.
	Data map[string]any `json:"-"`

	// Text is the object as JSON in place of Data. Caches hold it that way, because it takes a fraction of the memory.
	Text string `json:"-"`
}

// MarshalJSON writes the bare object.
func (m GenericMap) MarshalJSON() ([]byte, error) {
	if m.Text != "" {
		return []byte(m.Text), nil
	}
	return json.Marshal(m.Data)
}

// Compact returns the same object with Text in place of Data. It returns the object itself if it has no data, or data
// that cannot be encoded.
func (m *GenericMap) Compact() *GenericMap {
	if m == nil || len(m.Data) == 0 {
		return m
	}
	text, err := json.Marshal(m.Data)
	if err != nil {
		return m
	}
	return &GenericMap{Text: string(text)}
}

// UnmarshalJSON reads the bare object; null becomes a nil map.
func (m *GenericMap) UnmarshalJSON(text []byte) error {
	m.Data, m.Text = nil, ""
	return utiljson.Unmarshal(text, &m.Data)
}

// DeepCopyInto copies nested objects and lists; every other value is immutable and is shared.
func (m *GenericMap) DeepCopyInto(out *GenericMap) {
	out.Data, out.Text = copyObject(m.Data), m.Text
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
