package clusters

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// NamespaceOf returns the namespace of a Cluster. It computes the name, because agents can write the status and
// tenants can write the labels.
func NamespaceOf(cluster *fleet.Cluster) string {
	return names.ClusterNamespace(cluster.Namespace, cluster.Name)
}

// NamespaceClaim is the relation of a namespace's marks to one Cluster.
type NamespaceClaim int

const (
	// NamespaceUnclaimed means that the namespace has no mark of any Cluster.
	NamespaceUnclaimed NamespaceClaim = iota
	// NamespaceOwn means that it was made for this Cluster.
	NamespaceOwn
	// NamespaceOfAnother means that it was made for another Cluster. Names that are too long are cut, so that the owner
	// of one Cluster can choose a name that gives the namespace of another Cluster.
	NamespaceOfAnother
)

// ClaimOf compares the marks of a namespace with a Cluster. A nil namespace does not exist.
func ClaimOf(namespace *corev1.Namespace, cluster types.NamespacedName) NamespaceClaim {
	if namespace == nil {
		return NamespaceUnclaimed
	}
	claim := types.NamespacedName{
		Namespace: namespace.Annotations[fleet.AnnotationClusterNamespace], Name: namespace.Annotations[fleet.AnnotationCluster],
	}
	switch claim {
	case types.NamespacedName{}:
		return NamespaceUnclaimed
	case cluster:
		return NamespaceOwn
	}
	return NamespaceOfAnother
}

// IsAccountOf reports whether an account's annotations say that it was made for a request for this Cluster.
func IsAccountOf(account metav1.Object, cluster types.NamespacedName) bool {
	annotations := account.GetAnnotations()
	return annotations[fleet.AnnotationClusterRegistration] != "" && annotations[fleet.AnnotationCluster] == cluster.Name &&
		annotations[fleet.AnnotationClusterRegistrationNamespace] == cluster.Namespace
}

// ManagedElsewhere reports whether another manager owns a Cluster.
func ManagedElsewhere(cluster *fleet.Cluster) bool {
	return cluster.Labels[fleet.LabelClusterManagement] != ""
}
