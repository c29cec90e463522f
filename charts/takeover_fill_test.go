package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// fill creates an object of a kind that has every field of its schema, and returns it as it is stored.
func (s server) fill(t *testing.T, crd *unstructured.Unstructured, namespace string) map[string]any {
	t.Helper()
	names := crd.Object["spec"].(map[string]any)["names"].(map[string]any)
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	root := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	fields := sample("", root).(map[string]any)
	fields["apiVersion"], fields["kind"], fields["metadata"] = "fleet.cattle.io/v1alpha1", names["kind"], map[string]any{"name": "filled"}
	resource := s.of(crd, namespace)
	_, err := resource.Create(t.Context(), &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("%s: %v", names["kind"], err)
	}
	if status, ok := fields["status"]; ok {
		body, err := (&unstructured.Unstructured{Object: map[string]any{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": names["kind"], "status": status}}).MarshalJSON()
		if err == nil {
			_, err = resource.Patch(t.Context(), "filled", types.MergePatchType, body, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, "status")
		}
		if err != nil {
			t.Fatalf("status of %s: %v", names["kind"], err)
		}
	}
	stored, err := s.read(t, crd, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Sorted(maps.Keys(fields)); !slices.Equal(want, slices.Sorted(maps.Keys(stored))) {
		t.Fatalf("%s has the fields %v, want %v", names["kind"], slices.Sorted(maps.Keys(stored)), want)
	}
	return stored
}

// read returns the object that fill created, without fields that change by themselves.
func (s server) read(t *testing.T, crd *unstructured.Unstructured, namespace string) (map[string]any, error) {
	t.Helper()
	found, err := s.of(crd, namespace).Get(t.Context(), "filled", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	found.SetManagedFields(nil)
	found.SetResourceVersion("")
	return found.Object, nil
}

// of returns the client for the objects of a CRD.
func (s server) of(crd *unstructured.Unstructured, namespace string) dynamic.ResourceInterface {
	plural, _, _ := strings.Cut(crd.GetName(), ".")
	all := s.client.Resource(schema.GroupVersionResource{Group: "fleet.cattle.io", Version: "v1alpha1", Resource: plural})
	if crd.Object["spec"].(map[string]any)["scope"] == "Cluster" {
		return all
	}
	return all.Namespace(namespace)
}

// sample returns a value that a schema accepts, with every field.
func sample(name string, is map[string]any) any {
	if choice, ok := is["enum"].([]any); ok {
		return choice[len(choice)-1]
	}
	if is["x-kubernetes-int-or-string"] == true {
		return "5"
	}
	switch is["type"] {
	case "string":
		return sampleText(is)
	case "integer":
		return int64(1)
	case "number":
		return 1.5
	case "boolean":
		return true
	case "array":
		return []any{sample(name, is["items"].(map[string]any))}
	}
	fields := map[string]any{}
	if properties, ok := is["properties"].(map[string]any); ok {
		for field, property := range properties {
			fields[field] = sample(field, property.(map[string]any))
		}
		return fields
	}
	if values, ok := is["additionalProperties"].(map[string]any); ok {
		return map[string]any{"key": sample("", values)}
	}
	return map[string]any{"anything": map[string]any{"at": "all"}}
}

// sampleText is a text that is also a valid duration, because some fields require one.
func sampleText(is map[string]any) string {
	switch is["format"] {
	case "date-time":
		return "2026-01-02T03:04:05Z"
	case "byte":
		return "Zm9v"
	}
	return "1h"
}
