package apis_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestRecordedObjects_AreStoredWithAllFields(t *testing.T) {
	found := recorded(t)
	if len(found) != 26 {
		t.Errorf("%d recorded objects of our kinds, want 26", len(found))
	}
	for _, want := range found {
		t.Run(want.GetKind()+"/"+want.GetNamespace()+"/"+want.GetName(), func(t *testing.T) {
			// The API server sets the other metadata. It would garbage-collect an object whose owners do not exist.
			want.SetUID("")
			want.SetOwnerReferences(nil)
			client := resource(t, want.GetKind(), want.GetNamespace())
			created, err := client.Create(t.Context(), want, strict)
			if err != nil {
				t.Fatalf("creating it: %v", err)
			}
			if status, ok := want.Object["status"]; ok {
				created.Object["status"] = status
				created, err = client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
				if err != nil {
					t.Fatalf("writing its status: %v", err)
				}
			}
			got, err := client.Get(t.Context(), created.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(content(want), content(got)); diff != "" {
				t.Errorf("stored (-recorded +found):\n%s", diff)
			}
		})
	}
}

// content is an object without its metadata.
func content(object *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(object.Object)
	delete(fields, "metadata")
	return fields
}

func TestNull_IsAcceptedWhereRecordedSchemasAcceptIt(t *testing.T) {
	tests := map[string]struct{ spec, status []string }{ // some of the fields that must be null
		"Bundle":                   {[]string{"resources", "dependsOn", "rolloutStrategy"}, []string{"resourceKey"}},
		"BundleDeployment":         {[]string{"deploymentID", "valuesHash"}, []string{"conditions", "display", "syncGeneration"}},
		"BundleNamespaceMapping":   {nil, nil},
		"Cluster":                  {[]string{"clientID", "agentAffinity", "agentPullSecrets", "templateValues"}, []string{"agentTLSMode", "agentDeployedGeneration"}},
		"ClusterGroup":             {[]string{"selector"}, []string{"nonReadyClusters"}},
		"ClusterRegistration":      {[]string{"clientID", "clientRandom", "clusterLabels"}, []string{"clusterName"}},
		"ClusterRegistrationToken": {[]string{"ttl"}, []string{"secretName"}},
		"Content":                  {nil, nil},
	}
	for kind, sample := range tests {
		t.Run(kind, func(t *testing.T) {
			fields := sampled(t, kind)
			given := object(t, kind, "{}")
			for name, value := range fields {
				given.Object[name] = value
			}
			expectNulls(t, fields, "spec", sample.spec)
			expectNulls(t, fields, "status", sample.status)
			client := resource(t, kind, "nulls")
			created, err := client.Create(t.Context(), given, strict)
			if err != nil {
				t.Fatalf("creating it: %v", err)
			}
			status, ok := fields["status"]
			if !ok {
				return
			}
			created.Object["status"] = status
			if _, err := client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
				t.Errorf("writing its status: %v", err)
			}
		})
	}
}

func expectNulls(t *testing.T, fields map[string]any, part string, names []string) {
	t.Helper()
	for _, name := range names {
		values, _ := fields[part].(map[string]any)
		if value, ok := values[name]; !ok || value != nil {
			t.Errorf("%s.%s is %v, want null: the test does not test it", part, name, value)
		}
	}
}

// sampled makes a value of every field of a recorded kind, null where that is allowed.
func sampled(t *testing.T, kind string) map[string]any {
	t.Helper()
	read, err := readFile(filepath.Join(recordedFolder, "crds", strings.ToLower(kind)+"s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	version := read[0].Object["versions"].([]any)[0].(map[string]any)
	root := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	fields := sample(root).(map[string]any)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(fields, name)
	}
	return fields
}

func sample(schema map[string]any) any {
	if schema["nullable"] == true {
		return nil
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return "10%"
	}
	switch schema["type"] {
	case "object":
		made := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			made[name] = sample(property.(map[string]any))
		}
		if values, ok := schema["additionalProperties"].(map[string]any); ok {
			made["key"] = sample(values)
		}
		return made
	case "array":
		return []any{sample(schema["items"].(map[string]any))}
	case "boolean":
		return true
	case "integer":
		return int64(1)
	}
	if values, ok := schema["enum"].([]any); ok {
		return values[0]
	}
	if schema["format"] == "date-time" {
		return "2026-01-02T03:04:05Z"
	}
	return "x"
}

func TestStrictValidation_RefusesUnknownFieldsAndWrongTypes(t *testing.T) {
	tests := map[string]struct{ kind, fields, want string }{
		"unknown field":                   {"Cluster", `spec: {clientid: x}`, `unknown field "spec.clientid"`},
		"unknown nested field":            {"Bundle", `spec: {targets: [{helm: {chartt: x}}]}`, `unknown field "spec.targets[0].helm.chartt"`},
		"spec of a kind without spec":     {"Content", `spec: {}`, `unknown field "spec"`},
		"status of a kind without status": {"BundleNamespaceMapping", `status: {x: 1}`, `unknown field "status"`},
		"number instead of a string":      {"Cluster", `spec: {clientID: 1}`, `spec.clientID: Invalid value: "integer"`},
		"string instead of a number":      {"Cluster", `spec: {redeployAgentGeneration: "1"}`, `spec.redeployAgentGeneration: Invalid value: "string"`},
		"string instead of a boolean":     {"Cluster", `spec: {paused: x}`, `spec.paused: Invalid value: "string"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := resource(t, test.kind, "strict").Create(t.Context(), object(t, test.kind, test.fields), strict)
			if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
				t.Fatalf("got %v, want it refused", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("refused with %q, want %q in it", err, test.want)
			}
		})
	}
}

func TestFreeFormFields_KeepAllValues(t *testing.T) {
	values := `{text: x, number: 1, fraction: 1.5, flag: true, nothing: null, list: [{a: b}], object: {deep: {deeper: 1}}}`
	tests := map[string]struct {
		kind, fields string
		path         []string
	}{
		"the Helm values of a Bundle":       {"Bundle", `spec: {helm: {values: ` + values + `}}`, []string{"spec", "helm", "values"}},
		"the Helm values of staged options": {"BundleDeployment", `spec: {stagedOptions: {helm: {values: ` + values + `}}}`, []string{"spec", "stagedOptions", "helm", "values"}},
		"the template values of a Cluster":  {"Cluster", `spec: {templateValues: ` + values + `}`, []string{"spec", "templateValues"}},
	}
	want := object(t, "Cluster", `values: `+values).Object["values"]
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			created, err := resource(t, test.kind, "free").Create(t.Context(), object(t, test.kind, test.fields), strict)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := unstructured.NestedFieldNoCopy(created.Object, test.path...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kept (-given +found):\n%s", diff)
			}
		})
	}
}
