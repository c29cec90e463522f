package clusters

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Namespaces are the hub's two namespaces.
type Namespaces struct {
	// System is the namespace of the controllers. Registration is the namespace with the credentials.
	System, Registration string
}

// IsLocal reports whether a Cluster is the hub's own cluster.
func IsLocal(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	return cluster.Name == names.LocalCluster && bootstrap.Enabled() && cluster.Namespace == bootstrap.Namespace
}

// InBootstrapWorkspace reports whether a Cluster is in the workspace in which the hub registers itself. Only there may
// a kubeconfig lead to the hub's own cluster.
func InBootstrapWorkspace(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	if !bootstrap.Enabled() {
		return cluster.Namespace == names.LocalWorkspace
	}
	return cluster.Namespace == bootstrap.Namespace
}

// NamespaceOf returns the namespace of a Cluster. It computes the name, because agents can write the status and
// tenants can write the labels.
func NamespaceOf(cluster *fleet.Cluster) string {
	return names.ClusterNamespace(cluster.Namespace, cluster.Name)
}

// KubeconfigSecret returns the name of a Cluster's kubeconfig Secret, whether or not the Cluster may use it. It returns the
// zero value for a Cluster that names none.
func KubeconfigSecret(cluster *fleet.Cluster) types.NamespacedName {
	if cluster.Spec.KubeConfigSecret == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: cmp.Or(cluster.Spec.KubeConfigSecretNamespace, cluster.Namespace), Name: cluster.Spec.KubeConfigSecret}
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

// Owns reports whether a Cluster is among the owners of an object.
func Owns(cluster *fleet.Cluster, owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == "Cluster" && o.UID == cluster.UID })
}

// IsAnother reports whether the owner is an earlier Cluster with the same name but another UID.
func IsAnother(cluster *fleet.Cluster, owners []metav1.OwnerReference) bool {
	namesake := false
	for _, owner := range owners {
		if owner.Kind == "Cluster" && owner.UID == cluster.UID {
			return false
		}
		namesake = namesake || owner.Kind == "Cluster" && owner.Name == cluster.Name
	}
	return namesake
}

// LastSeen returns the time of a Cluster's last heartbeat in RFC 3339, or "" if there was none.
func LastSeen(cluster *fleet.Cluster) string {
	if cluster.Status.Agent.LastSeen.IsZero() {
		return ""
	}
	return cluster.Status.Agent.LastSeen.UTC().Format(time.RFC3339)
}

// Heartbeat identifies a Cluster's last heartbeat: by its time in RFC 3339 and, after a space, by the time at which the
// credential of the agent expires, if it does. Heartbeats of two agents in one second have the same time, but their credentials
// expire at different ones. It returns "" if there was no heartbeat.
func Heartbeat(cluster *fleet.Cluster) string {
	seen, expires := LastSeen(cluster), cluster.Status.Agent.CredentialExpires
	if seen == "" || expires.IsZero() {
		return seen
	}
	return seen + " " + expires.UTC().Format(time.RFC3339)
}

// sameHeartbeat reports whether two recorded results of Heartbeat are of the same heartbeat. If one has no second time, as those
// that earlier releases recorded, only the first ones are compared.
func sameHeartbeat(a, b string) bool {
	seenA, _, expiresA := strings.Cut(a, " ")
	seenB, _, expiresB := strings.Cut(b, " ")
	if expiresA && expiresB {
		return a == b
	}
	return seenA == seenB
}

// IsHeartbeat reports whether a Cluster's last heartbeat is the recorded one.
func IsHeartbeat(recorded string, cluster *fleet.Cluster) bool {
	return sameHeartbeat(recorded, Heartbeat(cluster))
}

// FirstOf returns the Cluster that agents join as, of those with the same client ID: the oldest one that is not being
// deleted.
func FirstOf(found []*fleet.Cluster) *fleet.Cluster {
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *fleet.Cluster) int {
		if going := a.DeletionTimestamp != nil; going != (b.DeletionTimestamp != nil) {
			if going {
				return 1
			}
			return -1
		}
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
}
