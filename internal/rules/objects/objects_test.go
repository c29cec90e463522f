package objects

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAnnotate(t *testing.T) {
	tests := map[string]struct {
		before map[string]string
		value  string
		want   map[string]string
	}{
		"without annotations: it is added":   {nil, "1", map[string]string{"a": "1"}},
		"another value: it is replaced":      {map[string]string{"a": "0", "b": "2"}, "1", map[string]string{"a": "1", "b": "2"}},
		"empty: it is removed":               {map[string]string{"a": "0", "b": "2"}, "", map[string]string{"b": "2"}},
		"empty without annotations: nothing": {nil, "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{}
			object.Annotations = test.before
			Annotate(object, "a", test.value)
			if !maps.Equal(object.Annotations, test.want) {
				t.Errorf("annotations %v, want %v", object.Annotations, test.want)
			}
		})
	}
}
