package agentchart

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ErrUnknownKind means that a template of the chart has a kind without a defined place. The order of the agent's
// manifest is part of the wire contract, so a new kind must be added to applyOrder.
var ErrUnknownKind = errors.New("the agent's chart has an object of an unknown kind")

// kind describes a kind of object in the agent's chart.
type kind struct {
	name  string
	empty func() runtime.Object
}

// applyOrder returns the order of kinds. The last five are ordered as in the agents' Bundles of Rancher Fleet.
// Objects of one kind keep the order of the chart.
func applyOrder() []kind {
	return []kind{
		{"Secret", func() runtime.Object { return &corev1.Secret{} }},
		{"ConfigMap", func() runtime.Object { return &corev1.ConfigMap{} }},
		{"PriorityClass", func() runtime.Object { return &schedulingv1.PriorityClass{} }},
		{"PodDisruptionBudget", func() runtime.Object { return &policyv1.PodDisruptionBudget{} }},
		{"ClusterRole", func() runtime.Object { return &rbacv1.ClusterRole{} }},
		{"ClusterRoleBinding", func() runtime.Object { return &rbacv1.ClusterRoleBinding{} }},
		{"ServiceAccount", func() runtime.Object { return &corev1.ServiceAccount{} }},
		{"Deployment", func() runtime.Object { return &appsv1.Deployment{} }},
		{"NetworkPolicy", func() runtime.Object { return &networkingv1.NetworkPolicy{} }},
	}
}

// place returns the index of a kind in the order, or a negative number if the kind is unknown.
func place(name string) int {
	return slices.IndexFunc(applyOrder(), func(k kind) bool { return k.name == name })
}

// objects converts rendered templates into typed objects, ordered by kind.
func objects(files map[string]string) ([]runtime.Object, error) {
	var all []runtime.Object
	for _, name := range sortedNames(files) {
		reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(files[name])))
		for {
			text, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			object, err := typed(text)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			if object != nil {
				all = append(all, object)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b runtime.Object) int { return place(kindOf(a)) - place(kindOf(b)) })
	return all, nil
}

func kindOf(o runtime.Object) string { return o.GetObjectKind().GroupVersionKind().Kind }

// sortedNames returns the sorted names of the templates that contain objects.
func sortedNames(files map[string]string) []string {
	var found []string
	for name := range files {
		if path.Ext(name) == ".yaml" {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// typed decodes one YAML document into the Go type of its kind. It returns nil for an empty document. An unknown
// field is an error, because the API server would drop it.
func typed(text []byte) (runtime.Object, error) {
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var meta metav1.TypeMeta
	if err := json.Unmarshal(encoded, &meta); err != nil {
		return nil, err
	}
	if string(encoded) == "null" {
		return nil, nil //nolint:nilnil // an empty template gives neither an object nor an error
	}
	at := place(meta.Kind)
	if at < 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknownKind, meta.Kind)
	}
	object := applyOrder()[at].empty()
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(object); err != nil {
		return nil, fmt.Errorf("%s: %w", meta.Kind, err)
	}
	return object, nil
}
