package hub

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Orphans are objects whose marks name an owner that does not exist. The hub deletes them, unless another client has
// changed their marks or they have finalizers. The checks report the remaining ones.

// orphanChecks returns the checks of objects without an owner.
func orphanChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-orphans-bundledeployments", Needs: sources(SourceClusters, SourceDelivery), Judge: checkOrphanedDeployments},
		{ID: "hub-orphans-namespaces", Needs: sources(SourceClusters, SourceNamespaces), Judge: checkOrphanedNamespaces},
		{ID: "hub-orphans-credentials", Needs: sources(SourceRequests, SourceCredentials), Judge: checkOrphanedCredentials},
		{ID: "hub-orphans-accounts", Needs: sources(SourceClusters, SourceAccounts), Judge: checkOrphanedAccounts},
	}
}

// owner returns an owner that the marks of an object name. ok is false if they name none, or one outside of the scope.
func (f *Facts) owner(marks map[string]string, namespaceKey, nameKey string) (owner types.NamespacedName, ok bool) {
	owner = types.NamespacedName{Namespace: marks[namespaceKey], Name: marks[nameKey]}
	return owner, owner.Namespace != "" && owner.Name != "" && f.inScope(owner.Namespace)
}

func checkOrphanedDeployments(f *Facts) (rows []check.Row) {
	known := namesOf(f.Clusters)
	for _, found := range f.BundleDeployments {
		cluster, ok := f.owner(found.Labels, fleet.LabelClusterNamespace, fleet.LabelCluster)
		if !ok || known[cluster] || !f.older(found, check.CreationPatience) {
			continue
		}
		fix := remedy.Command("kubectl", "delete", "bundledeployments.fleet.cattle.io", "-n", found.Namespace, found.Name)
		if len(found.Finalizers) > 0 { // its agent, which would remove them, does not exist
			fix = removeFinalizers("bundledeployments", found)
			if found.DeletionTimestamp == nil {
				fix += " && " + remedy.Command("kubectl", "delete", "bundledeployments.fleet.cattle.io", "-n", found.Namespace, found.Name)
			}
		}
		rows = check.Group(rows, "", check.Warn(check.OfFleet("BundleDeployment", found), fmt.Sprintf("the BundleDeployment is of Cluster %s, which does not exist", cluster), fix))
	}
	return rows
}

func checkOrphanedNamespaces(f *Facts) (rows []check.Row) {
	known := namesOf(f.Clusters)
	for _, found := range f.Namespaces {
		cluster, ok := f.owner(found.Annotations, fleet.AnnotationClusterNamespace, fleet.AnnotationCluster)
		// Everything in a namespace is deleted with it. So its name must be one that the hub computes.
		if !ok || known[cluster] || found.Name != names.ClusterNamespace(cluster.Namespace, cluster.Name) || !f.older(found, check.CreationPatience) {
			continue
		}
		target := check.Object{Kind: "Namespace", Group: corev1.GroupName, Name: found.Name}
		if found.DeletionTimestamp != nil {
			if f.Now.Sub(found.DeletionTimestamp.Time) > deletingPatience {
				rows = check.Group(rows, "deleting", check.Warn(target, fmt.Sprintf("the namespace is of Cluster %s, which does not exist. It is being deleted, but contains objects with finalizers", cluster),
					remedy.Command("kubectl", "describe", "namespace", found.Name)))
			}
			continue
		}
		rows = check.Group(rows, "", check.Warn(target, fmt.Sprintf("the namespace is of Cluster %s, which does not exist", cluster), remedy.Command("kubectl", "delete", "namespace", found.Name)))
	}
	return rows
}

func checkOrphanedCredentials(f *Facts) (rows []check.Row) {
	known := namesOf(f.Registrations)
	for _, found := range f.Credentials {
		request, ok := f.owner(found.Annotations, fleet.AnnotationClusterRegistrationNamespace, fleet.AnnotationClusterRegistration)
		if ok && !known[request] && f.older(found, check.CreationPatience) {
			rows = check.Group(rows, "", check.Warn(secretObject(found.Namespace, found.Name), fmt.Sprintf("the Secret contains the credential for ClusterRegistration %s, which does not exist", request),
				remedy.Command("kubectl", "delete", "secret", "-n", found.Namespace, found.Name)))
		}
	}
	return rows
}

func checkOrphanedAccounts(f *Facts) (rows []check.Row) {
	known := namesOf(f.Clusters)
	for _, found := range f.Accounts {
		cluster, ok := f.owner(found.Annotations, fleet.AnnotationClusterRegistrationNamespace, fleet.AnnotationCluster)
		if ok && !known[cluster] && f.older(found, check.CreationPatience) {
			rows = check.Group(rows, "", check.Warn(accountObject(found), fmt.Sprintf("the account is for the agent of Cluster %s, which does not exist: its tokens are still valid", cluster),
				remedy.Command("kubectl", "delete", "serviceaccount", "-n", found.Namespace, found.Name)))
		}
	}
	return rows
}

func accountObject(account metav1.Object) check.Object {
	return check.Object{Kind: "ServiceAccount", Group: corev1.GroupName, Namespace: account.GetNamespace(), Name: account.GetName()}
}
