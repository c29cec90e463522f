package contentreaders

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	contentBindings      = 32
	contentBindingPrefix = names.ContentRole + "-readers-"
	// AllBinding is the name of the ClusterRoleBinding that lets all service accounts of the hub read Contents.
	AllBinding = contentBindingPrefix + "all"
	// allServiceAccounts is the group of all service accounts.
	allServiceAccounts = "system:serviceaccounts"
)

// Bindings returns the names of all ClusterRoleBindings that Binding can return.
func Bindings() (all []string) {
	for i := range contentBindings {
		all = append(all, contentBindingName(uint32(i)))
	}
	return all
}

func contentBindingName(i uint32) string { return fmt.Sprintf("%s%02d", contentBindingPrefix, i) }

// Binding returns the name of the ClusterRoleBinding that lets an account read Contents. All accounts of a
// Cluster are in its namespace and share one binding.
func Binding(account types.NamespacedName) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(account.Namespace)) // writing to a hash never fails
	return contentBindingName(sum.Sum32() % contentBindings)
}

// IsBinding reports whether a ClusterRoleBinding of this name is one that agents share.
func IsBinding(name string) bool { return strings.HasPrefix(name, contentBindingPrefix) }

// Desired returns the desired state of a shared ClusterRoleBinding: exactly these accounts, given in any
// order.
func Desired(name string, accounts []types.NamespacedName) *rbacv1.ClusterRoleBinding {
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta:   objects.TypeMeta("ClusterRoleBinding"),
		ObjectMeta: objects.Managed("", name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.ContentRole},
	}
	keys := make(map[string]types.NamespacedName, len(accounts))
	for _, account := range accounts {
		keys[account.String()] = account // the key is built once, not for each comparison
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		binding.Subjects = append(binding.Subjects, objects.Subject(keys[key].Namespace, keys[key].Name))
	}
	return binding
}

// DesiredForAll returns the ClusterRoleBinding AllBinding.
func DesiredForAll() *rbacv1.ClusterRoleBinding {
	binding := Desired(AllBinding, nil)
	binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: allServiceAccounts}}
	return binding
}

// Reads reports whether a ClusterRoleBinding lets an account read Contents. It returns false for nil.
func Reads(binding *rbacv1.ClusterRoleBinding, account types.NamespacedName) bool {
	return binding != nil && binding.RoleRef.Kind == "ClusterRole" && binding.RoleRef.Name == names.ContentRole &&
		(slices.Contains(binding.Subjects, objects.Subject(account.Namespace, account.Name)) || slices.Contains(binding.Subjects, DesiredForAll().Subjects[0]))
}

// RequestOf returns the request that an account's annotations name, and false if they name none. Any client that may
// create accounts can set these annotations: see MayRead.
func RequestOf(account *corev1.ServiceAccount) (types.NamespacedName, bool) {
	request := types.NamespacedName{
		Namespace: account.Annotations[fleet.AnnotationClusterRegistrationNamespace],
		Name:      account.Annotations[fleet.AnnotationClusterRegistration],
	}
	return request, request.Namespace != "" && request.Name != ""
}

// MayRead reports whether an account belongs to a request and is in the namespace of the request's Cluster,
// where only the controllers and the hub's administrators create accounts. A nil request or Cluster does not exist. A
// Cluster that has lost its status keeps its agents' rights, because it will get the same namespace again. Another
// manager grants the rights of its agents itself.
func MayRead(account *corev1.ServiceAccount, request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	if request == nil || cluster == nil || request.Namespace != cluster.Namespace || request.Labels[fleet.LabelClusterManagement] != "" {
		return false
	}
	return account.Namespace == clusters.NamespaceOf(cluster) && account.Name == names.RequestAccount(request.Name, string(request.UID)) &&
		account.DeletionTimestamp == nil
}
