package drift_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/drift"
)

// Fields that the deployed object does not set are ignored.
func ExampleComparer_Compare() {
	configMap := func(data map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "settings"}, "data": data,
		}}
	}
	literal := drift.Comparer{New: func(schema.GroupVersionKind) any { return nil }}
	patch, err := literal.Compare(drift.Input{
		Desired: configMap(map[string]any{"color": "green"}),
		Live:    configMap(map[string]any{"color": "red"}),
	})
	fmt.Println(patch, err)
	// Output: map[data:map[color:green]] <nil>
}
