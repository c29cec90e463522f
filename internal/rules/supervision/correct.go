package supervision

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Correct sets in live the settings of the pod that wanted has, and reports whether live changed. Everything else in live stays,
// because an admin may have added it. A setting that is no longer wanted is removed if only the hub and the agent's Bundle have
// set it. Tolerations and node selectors are not removed: the API server records one writer for all of them.
func Correct(live, wanted *appsv1.Deployment) bool {
	has, want := &live.Spec.Template.Spec, &wanted.Spec.Template.Spec
	if len(want.Containers) == 0 {
		return false
	}
	name := want.Containers[0].Name
	at := slices.IndexFunc(has.Containers, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		return false
	}
	before, fields := has.DeepCopy(), fieldsOf(live)
	pod := []string{"f:spec", "f:template", "f:spec"}
	fields.merge(has, want, pod, "affinity", "hostNetwork", "priorityClassName", "securityContext")
	has.ImagePullSecrets = mergeList(fields, has.ImagePullSecrets, want.ImagePullSecrets, below(pod, "f:imagePullSecrets"),
		func(s corev1.LocalObjectReference) string { return s.Name },
		func(has, wanted corev1.LocalObjectReference) bool { return has == wanted })
	for _, toleration := range want.Tolerations {
		if !slices.ContainsFunc(has.Tolerations, func(t corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, toleration) }) {
			has.Tolerations = append(has.Tolerations, toleration)
		}
	}
	if len(want.NodeSelector) > 0 {
		selector := maps.Clone(want.NodeSelector)
		for key, value := range has.NodeSelector {
			if _, set := selector[key]; !set {
				selector[key] = value
			}
		}
		has.NodeSelector = selector
	}

	container, agent := &has.Containers[at], below(pod, "f:containers", itemOf(name))
	fields.merge(container, &want.Containers[0], agent, "image", "imagePullPolicy", "command", "args", "resources", "securityContext")
	container.Env = mergeList(fields, container.Env, want.Containers[0].Env, below(agent, "f:env"),
		func(v corev1.EnvVar) string { return v.Name }, sameVariable)
	return !equality.Semantic.DeepEqual(before, has)
}

func below(path []string, keys ...string) []string { return slices.Concat(path, keys) }

// itemOf returns the key of a list's item in managed fields.
func itemOf(name string) string { return fmt.Sprintf("k:{\"name\":%q}", name) }

func sameVariable(has, wanted corev1.EnvVar) bool {
	return has.Value == wanted.Value && (has.ValueFrom == nil) == (wanted.ValueFrom == nil) &&
		equality.Semantic.DeepDerivative(wanted.ValueFrom, has.ValueFrom) // the API server fills in the version of a field
}

// managed are the fields of an object that its managers have set: the hub with the agent's Bundle, and all others.
type managed struct{ own, others []map[string]any }

func fieldsOf(object metav1.Object) (fields managed) {
	for _, entry := range object.GetManagedFields() {
		var set map[string]any
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		if entry.Manager == names.ImportFieldManager || entry.Manager == names.AgentFieldManager {
			fields.own = append(fields.own, set)
		} else {
			fields.others = append(fields.others, set)
		}
	}
	return fields
}

// owns reports whether only the hub and the agent's Bundle have set a field.
func (m managed) owns(path []string) bool {
	sets := func(fields map[string]any) bool { return contains(fields, path) }
	return slices.ContainsFunc(m.own, sets) && !slices.ContainsFunc(m.others, sets)
}

// contains reports whether managed fields contain a path. A field without fields stands for all that is below it.
func contains(fields map[string]any, path []string) bool {
	for _, key := range path {
		next, found := fields[key].(map[string]any)
		switch {
		case !found:
			return false
		case len(next) == 0:
			return true
		}
		fields = next
	}
	return true
}

// merge sets the named fields of has, a pointer to a PodSpec or Container, to those of wanted.
func (m managed) merge(has, wanted any, path []string, keys ...string) {
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(has)
	if err != nil {
		return
	}
	ought, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return
	}
	for _, key := range keys {
		m.mergeField(is, ought, path, key)
	}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(is, has)
}

// mergeField sets one field. In a map, it sets only what differs.
func (m managed) mergeField(has, wanted map[string]any, path []string, key string) {
	path = below(path, "f:"+key)
	value, isWanted := wanted[key]
	ought, _ := value.(map[string]any)
	is, isMap := has[key].(map[string]any)
	switch {
	case isMap && len(is) == 0 && len(ought) == 0:
	case isMap:
		m.mergeMap(is, ought, path)
		if len(is) == 0 {
			delete(has, key)
		}
	case isWanted && !isEmptyMap(value) && !reflect.DeepEqual(has[key], value):
		has[key] = value
	case !isWanted && key != "imagePullPolicy" && m.owns(path): // the API server fills in the policy
		delete(has, key)
	}
}

func (m managed) mergeMap(has, wanted map[string]any, path []string) {
	for _, name := range slices.Sorted(maps.Keys(has)) {
		m.mergeField(has, wanted, path, name)
	}
	for name, value := range wanted {
		if _, set := has[name]; !set {
			has[name] = value
		}
	}
}

func isEmptyMap(value any) bool {
	fields, isMap := value.(map[string]any)
	return isMap && len(fields) == 0
}

// mergeList returns the items of has and wanted. Wanted items replace those with the same key.
func mergeList[T any](m managed, has, wanted []T, path []string, key func(T) string, same func(has, wanted T) bool) (merged []T) {
	for _, item := range has {
		at := slices.IndexFunc(wanted, func(w T) bool { return key(w) == key(item) })
		switch {
		case at >= 0 && !same(item, wanted[at]):
			merged = append(merged, wanted[at])
		case at >= 0 || !m.owns(below(path, itemOf(key(item)))):
			merged = append(merged, item)
		}
	}
	for _, item := range wanted {
		if !slices.ContainsFunc(has, func(h T) bool { return key(h) == key(item) }) {
			merged = append(merged, item)
		}
	}
	return merged
}
