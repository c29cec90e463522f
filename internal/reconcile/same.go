package reconcile

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isAsDesired reports whether all fields that we own are the same. It is cheap and is enough for most children. False
// means that a detailed comparison is needed.
func (k Kind) isAsDesired(live, desired Object) bool {
	return includes(live.GetLabels(), desired.GetLabels()) && includes(live.GetAnnotations(), desired.GetAnnotations()) &&
		!slices.ContainsFunc(k.drops, func(key string) bool { _, there := live.GetAnnotations()[key]; return there }) &&
		isOwned(live.GetOwnerReferences(), desired.GetOwnerReferences()) &&
		sameFields(live, desired, k.owned) && sameFields(live, desired, fixedFields(k.gvk.Kind))
}

// fixedFields returns the fields that are immutable once the object exists.
func fixedFields(kind string) []path {
	switch kind {
	case "Secret":
		return []path{{"type"}}
	case "RoleBinding", "ClusterRoleBinding":
		return []path{{"roleRef"}}
	}
	return nil
}

// Equal reports whether two values mean the same, as equality.Semantic does. It is much faster if they are identical,
// which most are.
func Equal(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }

func includes(found, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, there := found[key]; !there || have != value {
			return false
		}
	}
	return true
}

func isOwned(found, wanted []metav1.OwnerReference) bool {
	for _, owner := range wanted {
		if !slices.ContainsFunc(found, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
			return false
		}
	}
	return true
}

func sameFields(live, desired Object, fields []path) bool {
	for _, field := range fields {
		found, wanted := fieldAt(live, field), fieldAt(desired, field)
		if !found.IsValid() || !wanted.IsValid() || !Equal(found.Interface(), wanted.Interface()) {
			return false
		}
	}
	return true
}

// fieldAt returns a field by its JSON names, or the zero Value if it does not exist.
func fieldAt(obj Object, field path) reflect.Value {
	value := reflect.ValueOf(obj)
	for _, name := range field {
		value = fieldNamed(value, name)
	}
	return value
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
