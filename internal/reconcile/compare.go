package reconcile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AnnotationLabelKeys lists the keys of our labels on an object to which others may add labels. A label with a listed
// key that is no longer desired is removed. Changing this annotation's key orphans such labels.
const AnnotationLabelKeys = "fleet.cattle.io/label-keys"

// Equal reports whether two values mean the same, as equality.Semantic does. It is much faster if they are identical,
// which most are.
func Equal(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }

// ownedFields returns the fields of a child that we own, in addition to labels, annotations and owner references. A
// ServiceAccount's list of Secrets and a Namespace's finalizers belong to Kubernetes.
func ownedFields(kind string) []path {
	switch kind {
	case "Namespace", "ServiceAccount":
		return nil
	case "Secret", "ConfigMap":
		return []path{{"data"}}
	case "Role", "ClusterRole":
		return []path{{"rules"}}
	case "RoleBinding", "ClusterRoleBinding":
		return []path{{"subjects"}}
	default:
		return []path{{"spec"}}
	}
}

// mustRecreate reports whether an immutable field differs.
func mustRecreate(live, desired Object) bool {
	return secretType(live) != secretType(desired) || roleRefOf(live) != roleRefOf(desired)
}

// secretType returns the type of a Secret, or "" for other kinds.
func secretType(object Object) corev1.SecretType {
	if secret, ok := object.(*corev1.Secret); ok {
		return cmp.Or(secret.Type, corev1.SecretTypeOpaque)
	}
	return ""
}

// roleRefOf returns the role of a binding, or the zero value for other kinds.
func roleRefOf(object Object) rbacv1.RoleRef {
	switch binding := object.(type) {
	case *rbacv1.RoleBinding:
		return binding.RoleRef
	case *rbacv1.ClusterRoleBinding:
		return binding.RoleRef
	}
	return rbacv1.RoleRef{}
}

// patchFor returns the merge patch that brings live to the desired state. It returns nil if nothing differs. Most
// children are as desired, so only fields that differ are encoded.
func (k Kind) patchFor(live, desired Object) ([]byte, error) {
	changes, err := k.fieldChanges(live, desired)
	if err != nil {
		return nil, err
	}
	if meta := k.metaChanges(live, desired); len(meta) > 0 {
		changes["metadata"] = meta
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return json.Marshal(changes)
}

// fieldChanges returns the merge patch for the fields that we own completely: entries that are not desired are removed.
func (k Kind) fieldChanges(live, desired Object) (map[string]any, error) {
	changes := map[string]any{}
	for _, field := range k.owned {
		change, differs, err := fieldChange(fieldAt(live, field), fieldAt(desired, field))
		if err != nil {
			return nil, err
		}
		if !differs {
			continue
		}
		target := changes
		for _, name := range field[:len(field)-1] {
			if target[name] == nil {
				target[name] = map[string]any{}
			}
			target, _ = target[name].(map[string]any)
		}
		target[field[len(field)-1]] = change
	}
	return changes, nil
}

// fieldChange returns what a merge patch sets for a field. Values that an API server stores alike do not differ.
func fieldChange(foundField, wantedField any) (change any, differs bool, err error) {
	if Equal(foundField, wantedField) {
		return nil, false, nil
	}
	if differInLength(foundField, wantedField) {
		return wantedField, true, nil // without the cost of a conversion, which long lists would often have
	}
	found, err := toJSON(foundField)
	if err != nil {
		return nil, false, err
	}
	wanted, err := toJSON(wantedField)
	if err != nil || reflect.DeepEqual(found, wanted) || isEmpty(found) && isEmpty(wanted) {
		return nil, false, err
	}
	_, wasMap := found.(map[string]any)
	_, isMap := wanted.(map[string]any)
	switch {
	case wasMap && isMap:
		change, err = mergePatch(found, wanted)
		return change, true, err
	case isEmpty(wanted):
		return nil, true, nil // removes the field
	}
	return wanted, true, nil
}

// toJSON returns a value as JSON values.
func toJSON(value any) (decoded any, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &decoded)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", value, err)
	}
	return decoded, nil
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}

// fieldAt returns a field by its JSON names, or nil if it does not exist.
func fieldAt(obj Object, field path) any {
	value := reflect.ValueOf(obj)
	for _, name := range field {
		value = fieldNamed(value, name)
	}
	if !value.IsValid() {
		return nil
	}
	return value.Interface()
}

// fieldNamed returns a field of a struct, or of the structs embedded in it.
func fieldNamed(value reflect.Value, name string) reflect.Value {
	value = reflect.Indirect(value)
	if value.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i := range value.NumField() {
		described := value.Type().Field(i)
		tagged, _, _ := strings.Cut(described.Tag.Get("json"), ",")
		if tagged == name && described.IsExported() {
			return value.Field(i)
		}
		if tagged == "" && described.Anonymous {
			if found := fieldNamed(value.Field(i), name); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

// metaChanges returns the merge patch for the metadata. Others may add labels, annotations and owners.
func (k Kind) metaChanges(live, desired Object) map[string]any {
	changes := map[string]any{}
	labels := missing(live.GetLabels(), desired.GetLabels())
	if k.tracks {
		dropLabels(labels, live, desired)
	}
	if len(labels) > 0 {
		changes["labels"] = labels
	}
	annotations := missing(live.GetAnnotations(), desired.GetAnnotations())
	for _, key := range k.drops {
		if _, there := live.GetAnnotations()[key]; there {
			annotations[key] = nil
		}
	}
	if len(annotations) > 0 {
		changes["annotations"] = annotations
	}
	if owners := withOwners(live.GetOwnerReferences(), desired.GetOwnerReferences()); len(owners) > len(live.GetOwnerReferences()) {
		changes["ownerReferences"] = owners
		changes["resourceVersion"] = live.GetResourceVersion() // replaces the list: must fail if it changed
	}
	return changes
}

// missing returns the wanted entries that are absent or differ.
func missing(found, wanted map[string]string) map[string]any {
	changes := map[string]any{}
	for key, value := range wanted {
		if have, ok := found[key]; !ok || have != value {
			changes[key] = value
		}
	}
	return changes
}

// dropLabels adds the removal of labels that were ours.
func dropLabels(changes map[string]any, live, desired Object) {
	for key := range strings.SplitSeq(live.GetAnnotations()[AnnotationLabelKeys], ",") {
		_, stays := desired.GetLabels()[key]
		_, there := live.GetLabels()[key]
		if there && !stays {
			changes[key] = nil
		}
	}
}

// withOwners adds the wanted owner references to the existing ones.
func withOwners(found, wanted []metav1.OwnerReference) []metav1.OwnerReference {
	owners := slices.Clip(found)
	for _, reference := range wanted {
		if !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == reference.UID }) {
			owners = append(owners, reference)
		}
	}
	return owners
}

// trackLabels records the keys of an object's labels in its annotation.
func trackLabels(obj Object) {
	keys := slices.Sorted(maps.Keys(obj.GetLabels()))
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == fleet.LabelSetHash })
	annotate(obj, AnnotationLabelKeys, strings.Join(keys, ","))
}

// differInLength reports whether both values are lists with elements, and one has more.
func differInLength(found, wanted any) bool {
	a, b := reflect.ValueOf(found), reflect.ValueOf(wanted)
	return a.Kind() == reflect.Slice && b.Kind() == reflect.Slice && a.Len() > 0 && b.Len() > 0 && a.Len() != b.Len()
}
