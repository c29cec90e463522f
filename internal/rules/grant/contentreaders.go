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

// Contents are in no namespace, so only a ClusterRoleBinding lets an agent read them, and an API server goes through all
// of these to decide about any request of anybody. So the agents share some, whose number does not grow with theirs.

const (
	contentBindings      = 32
	contentBindingPrefix = names.ContentRole + "-readers-"
)

// ContentBinding is the name of the ClusterRoleBinding by which an account reads Contents. It is the same for all
// accounts of a Cluster, which are in its namespace.
func ContentBinding(account types.NamespacedName) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(account.Namespace)) // a hash takes everything
	return fmt.Sprintf("%s%02d", contentBindingPrefix, sum.Sum32()%contentBindings)
}

// IsContentBinding says whether a ClusterRoleBinding of this name is one that agents share.
func IsContentBinding(name string) bool { return strings.HasPrefix(name, contentBindingPrefix) }

// ContentReaders is a shared ClusterRoleBinding as it should be: for these accounts, in any order, and for nobody else.
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

// ReadsContents says whether a ClusterRoleBinding lets an account read Contents. nil lets nobody.
func ReadsContents(binding *rbacv1.ClusterRoleBinding, account types.NamespacedName) bool {
	return binding != nil && binding.RoleRef.Kind == "ClusterRole" && binding.RoleRef.Name == names.ContentRole &&
		slices.Contains(binding.Subjects, objects.Subject(account.Namespace, account.Name))
}

// RequestOf names the request that an account says it was made for; false if it says nothing. Whoever may make accounts
// can let them say so: see MayReadContents.
func RequestOf(account *corev1.ServiceAccount) (types.NamespacedName, bool) {
	request := types.NamespacedName{
		Namespace: account.Annotations[fleet.AnnotationClusterRegistrationNamespace],
		Name:      account.Annotations[fleet.AnnotationClusterRegistration],
	}
	return request, request.Namespace != "" && request.Name != ""
}

// MayReadContents says whether an account is that of a request, in the namespace of the request's Cluster, where none
// but the controllers and those who administrate the hub make accounts. nil stands for a request or a Cluster that is
// not there. A Cluster that has lost its status costs nobody a right: it will have the same namespace. Another manager
// gives its agents their rights itself.
func MayReadContents(account *corev1.ServiceAccount, request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	if request == nil || cluster == nil || request.Namespace != cluster.Namespace || request.Labels[fleet.LabelClusterManagement] != "" {
		return false
	}
	return account.Namespace == clusters.NamespaceOf(cluster) && account.Name == names.RequestAccount(request.Name, string(request.UID)) &&
		account.DeletionTimestamp == nil
}
