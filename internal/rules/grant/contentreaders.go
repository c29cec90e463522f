package grant

import (
	"fmt"
	"hash/fnv"
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

// Contents are cluster-scoped, so only a ClusterRoleBinding lets an agent read them. An API server goes through all
// ClusterRoleBindings to authorize any request. So the agents share a fixed number of them.

const (
	contentBindings      = 32
	contentBindingPrefix = names.ContentRole + "-readers-"
)

// ContentBinding returns the name of the ClusterRoleBinding that lets an account read Contents. All accounts of a
// Cluster are in its namespace and share one binding.
func ContentBinding(account types.NamespacedName) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(account.Namespace)) // writing to a hash never fails
	return fmt.Sprintf("%s%02d", contentBindingPrefix, sum.Sum32()%contentBindings)
}

// IsContentBinding reports whether a ClusterRoleBinding of this name is one that agents share.
func IsContentBinding(name string) bool { return strings.HasPrefix(name, contentBindingPrefix) }

// ContentReaders returns the desired state of a shared ClusterRoleBinding: exactly these accounts, given in any
// order.
func ContentReaders(name string, accounts []types.NamespacedName) *rbacv1.ClusterRoleBinding {
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta:   objects.TypeMeta("ClusterRoleBinding"),
		ObjectMeta: objects.Managed("", name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.ContentRole},
	}
	accounts = slices.Clone(accounts)
	slices.SortFunc(accounts, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, account := range accounts {
		binding.Subjects = append(binding.Subjects, objects.Subject(account.Namespace, account.Name))
	}
	return binding
}

// ReadsContents reports whether a ClusterRoleBinding lets an account read Contents. It returns false for nil.
func ReadsContents(binding *rbacv1.ClusterRoleBinding, account types.NamespacedName) bool {
	return binding != nil && binding.RoleRef.Kind == "ClusterRole" && binding.RoleRef.Name == names.ContentRole &&
		slices.Contains(binding.Subjects, objects.Subject(account.Namespace, account.Name))
}

// RequestOf returns the request that an account's annotations name, and false if they name none. Any client that may
// create accounts can set these annotations: see MayReadContents.
func RequestOf(account *corev1.ServiceAccount) (types.NamespacedName, bool) {
	request := types.NamespacedName{
		Namespace: account.Annotations[fleet.AnnotationClusterRegistrationNamespace],
		Name:      account.Annotations[fleet.AnnotationClusterRegistration],
	}
	return request, request.Namespace != "" && request.Name != ""
}

// MayReadContents reports whether an account belongs to a request and is in the namespace of the request's Cluster,
// where only the controllers and the hub's administrators create accounts. A nil request or Cluster does not exist. A
// Cluster that has lost its status keeps its agents' rights, because it will get the same namespace again. Another
// manager grants the rights of its agents itself.
func MayReadContents(account *corev1.ServiceAccount, request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	if request == nil || cluster == nil || request.Namespace != cluster.Namespace || request.Labels[fleet.LabelClusterManagement] != "" {
		return false
	}
	return account.Namespace == clusters.NamespaceOf(cluster) && account.Name == names.RequestAccount(request.Name, string(request.UID)) &&
		account.DeletionTimestamp == nil
}
