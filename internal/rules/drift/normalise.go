package drift

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	groupRBAC      = "rbac.authorization.k8s.io"
	groupAdmission = "admissionregistration.k8s.io"
	// markPrefix starts the annotations that assign an object to a set.
	markPrefix = "objectset.rio.cattle.io/"
	// anyBundle, a newline in base64, is how a manifest leaves the certificates to another component.
	anyBundle = "Cg=="
)

// serverFields returns the metadata fields that only the server writes.
func serverFields() []string {
	return []string{
		"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
		"resourceVersion", "selfLink", "uid",
	}
}

// normalise returns a copy without the fields that are not compared, and with alternative notations unified.
func normalise(object *unstructured.Unstructured) map[string]any {
	out := object.DeepCopy().Object
	delete(out, "status")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		for _, field := range serverFields() {
			delete(metadata, field)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			maps.DeleteFunc(annotations, func(name string, _ any) bool { return strings.HasPrefix(name, markPrefix) })
		}
	}
	switch kind := object.GroupVersionKind().GroupKind(); {
	case isSecret(kind):
		EncodeStrings(out)
		delete(out, "stringData")
	case kind.Group == groupRBAC:
		normaliseRBAC(out)
	case kind.Group == groupAdmission:
		dropCABundles(out)
	case kind == schema.GroupKind{Kind: "Endpoints"}:
		sortSubsets(out)
	case kind == schema.GroupKind{Group: "argoproj.io", Kind: "Rollout"}:
		normalisePods(out)
	}
	return out
}

func isSecret(kind schema.GroupKind) bool { return kind == schema.GroupKind{Kind: "Secret"} }

// EncodeStrings moves the text in stringData of a Secret to data, as the API server does. Values that are not text stay, because
// the API server rejects them.
func EncodeStrings(secret map[string]any) {
	texts, ok := secret["stringData"].(map[string]any)
	if !ok {
		return
	}
	for key, value := range texts {
		text, ok := value.(string)
		if !ok {
			continue
		}
		data, ok := secret["data"].(map[string]any)
		if !ok {
			data = map[string]any{}
			secret["data"] = data
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		delete(texts, key)
	}
	if len(texts) == 0 {
		delete(secret, "stringData")
	}
}

// normaliseRBAC drops empty rules, and rules that the server aggregates from other roles.
func normaliseRBAC(role map[string]any) {
	if aggregation, ok := role["aggregationRule"]; (ok && !isEmpty(aggregation)) || isEmpty(role["rules"]) {
		if _, ok := role["rules"]; ok {
			role["rules"] = nil
		}
	}
}

// dropCABundles drops the certificates of webhooks that the manifest leaves to another component. The live object needs
// no change, because only desired fields are compared.
func dropCABundles(configuration map[string]any) {
	webhooks, _ := configuration["webhooks"].([]any)
	for _, webhook := range webhooks {
		fields, _ := webhook.(map[string]any)
		client, _ := fields["clientConfig"].(map[string]any)
		if client["caBundle"] == anyBundle {
			delete(client, "caBundle")
		}
	}
}

// sortSubsets sorts lists that the server stores in its own order.
func sortSubsets(endpoints map[string]any) {
	subsets, _ := endpoints["subsets"].([]any)
	for _, subset := range subsets {
		fields, _ := subset.(map[string]any)
		for _, list := range fields {
			if items, ok := list.([]any); ok {
				sortByText(items)
			}
		}
	}
	sortByText(subsets)
}

func sortByText(items []any) {
	slices.SortStableFunc(items, func(a, b any) int { return strings.Compare(encode(a), encode(b)) })
}

// normalisePods normalises the pod template of an Argo Rollout like that of a Deployment, as its controller does.
func normalisePods(rollout map[string]any) {
	template, found, err := unstructured.NestedMap(rollout, "spec", "template")
	if err != nil || !found {
		return
	}
	var typed corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed); err != nil {
		return
	}
	if written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed); err == nil {
		// Cannot fail, because the field exists.
		_ = unstructured.SetNestedMap(rollout, written, "spec", "template")
	}
}
