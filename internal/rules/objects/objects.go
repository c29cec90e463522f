package objects

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Managed returns the metadata of an object that the hub owns. The label allows the hub to clean it up.
func Managed(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{fleet.LabelManaged: "true"}}
}

// IsOurs reports whether an object has the label of objects that the hub cleans up, and may be deleted.
func IsOurs(obj metav1.Object) bool {
	return obj.GetLabels()[fleet.LabelManaged] == "true" && IsFree(obj)
}

// IsFree reports whether an object may be deleted. It may not if it is already being deleted, if another manager owns
// it, or if it has to stay without its owner.
func IsFree(obj metav1.Object) bool {
	labels := obj.GetLabels()
	return obj.GetDeletionTimestamp() == nil && labels[fleet.LabelClusterManagement] == "" && labels[fleet.LabelSetPrune] != "false"
}

// Annotate sets an annotation of an object, or removes it if the value is empty.
func Annotate(obj metav1.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if value == "" {
		delete(annotations, key)
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
		obj.SetAnnotations(annotations)
	}
	annotations[key] = value
}

// TypeMeta returns the TypeMeta of an RBAC kind.
func TypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func RoleOf(meta metav1.ObjectMeta, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: TypeMeta("Role"), ObjectMeta: meta, Rules: rules}
}

func BindingOf(meta metav1.ObjectMeta, kind, role string, to rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   TypeMeta("RoleBinding"),
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects:   []rbacv1.Subject{to},
	}
}

func Subject(namespace, account string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}
}

func IsLabelValue(s string) bool {
	return s != "" && len(validation.IsValidLabelValue(s)) == 0
}
