package joining

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// Key is the key of the manifest in the Secret.
	Key = "value"
	// MaxBytes limits the manifest. A Secret has at most 1 MiB.
	MaxBytes = 1000 << 10

	suffix = "-fleet-join"
)

// SecretName returns the name of the Secret with the manifest for a cluster.
func SecretName(cluster string) string { return cluster + suffix }

// ClusterOfSecret returns the name of the cluster for which a Secret with this name is, or "".
func ClusterOfSecret(secret string) string {
	cluster, is := strings.CutSuffix(secret, suffix)
	if !is {
		return ""
	}
	return cluster
}

// NewSecret returns the Secret of a cluster. The Cluster of Cluster API, whose API version is version, owns it: the Secret
// is deleted with it, and clusterctl moves both.
func NewSecret(from *capi.Cluster, version string, manifest []byte) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: objects.Managed(from.Namespace, SecretName(from.Name)),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{Key: manifest},
	}
	if objects.IsLabelValue(from.Name) {
		secret.Labels[capi.LabelCluster] = from.Name
	}
	secret.Annotations = map[string]string{annotation.CAPICluster: capi.MarkOf(from)}
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: capi.Group + "/" + version, Kind: "Cluster", Name: from.Name, UID: from.UID}}
	return secret
}

// IsForCluster reports whether the hub created a Secret for a cluster, or for an earlier one with its name. A Secret that
// clusterctl has moved here has the mark of another hub, which is the same.
func IsForCluster(secret *corev1.Secret, cluster types.NamespacedName) bool {
	return strings.HasPrefix(secret.Annotations[annotation.CAPICluster], cluster.String()+"/")
}

// Merge returns the Secret to write in place of a live one, and whether it differs. Labels and annotations of others stay.
// A Secret that cannot be updated has to be deleted first.
func Merge(live, want *corev1.Secret) (merged *corev1.Secret, differs bool) {
	merged = live.DeepCopy()
	merged.Labels, merged.Annotations = labels.Merge(merged.Labels, want.Labels), labels.Merge(merged.Annotations, want.Annotations)
	merged.OwnerReferences, merged.Data = want.OwnerReferences, want.Data
	return merged, !equality.Semantic.DeepEqual(live, merged)
}

// IsFixed reports whether a live Secret cannot be updated.
func IsFixed(live *corev1.Secret) bool {
	return live.Type != corev1.SecretTypeOpaque || live.Immutable != nil && *live.Immutable
}
