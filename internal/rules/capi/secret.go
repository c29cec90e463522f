package capi

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// The contract of Cluster API for Secrets.
const (
	// LabelCluster is the name of the cluster that an object belongs to.
	LabelCluster = "cluster.x-k8s.io/cluster-name"

	secretType   = "cluster.x-k8s.io/secret"
	secretSuffix = "-kubeconfig"
)

// maxOwners is the number of owner references of a Secret that are read.
const maxOwners = 16

// SecretName returns the name of the Secret with the kubeconfig of a cluster.
func SecretName(cluster string) string { return cluster + secretSuffix }

// ClusterOfSecret returns the name of the cluster whose kubeconfig a Secret with this name contains, or "".
func ClusterOfSecret(secret string) string {
	cluster, is := strings.CutSuffix(secret, secretSuffix)
	if !is {
		return ""
	}
	return cluster
}

// Secret contains what the hub remembers of a kubeconfig Secret. It contains nothing of the kubeconfig but its validity.
// The zero value is a Secret that does not exist.
type Secret struct {
	Exists, HasKubeconfig bool
	Type, Cluster         string
	Owners                []Owner
	Validity              Validity
}

// Owner is an owner reference.
type Owner struct {
	Reference

	UID types.UID
}

// ReadSecret returns what the rule needs of a Secret. validity is that of its kubeconfig.
func ReadSecret(secret *corev1.Secret, validity Validity) Secret {
	if secret == nil || secret.DeletionTimestamp != nil {
		return Secret{}
	}
	read := Secret{
		Exists: true, HasKubeconfig: len(secret.Data[protocol.KubeconfigValueKey]) > 0,
		Type: string(secret.Type), Cluster: secret.Labels[LabelCluster], Validity: validity,
	}
	for _, owner := range secret.OwnerReferences[:min(len(secret.OwnerReferences), maxOwners)] {
		read.Owners = append(read.Owners, ownerOf(owner))
	}
	return read
}

func ownerOf(owner metav1.OwnerReference) Owner {
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return Owner{Reference{Group: group, Kind: owner.Kind, Name: owner.Name}, owner.UID}
}

// obstacle returns why a Secret is not the one of a cluster, with the remedy. It returns "" if it is.
func (s Secret) obstacle(cluster *Cluster) string {
	name := cluster.Namespace + "/" + SecretName(cluster.Name)
	switch {
	case !s.Exists:
		return fmt.Sprintf("Secret %s does not exist: the provider of the control plane creates it", name)
	case s.Type != secretType:
		return fmt.Sprintf("Secret %s is not used because its type is not %s: delete it, so that the provider of the control plane creates it", name, secretType)
	case s.Cluster != cluster.Name:
		return fmt.Sprintf("Secret %s is not used because it belongs to another cluster: set its label %s to %s if it is the kubeconfig of this one", name, LabelCluster, cluster.Name)
	case !s.isOwnedBy(cluster):
		return fmt.Sprintf("Secret %s is not used because neither this Cluster nor its control plane owns it: delete it, so that the provider of the control plane creates it", name)
	case !s.HasKubeconfig:
		return fmt.Sprintf("Secret %s has no key %q: the provider of the control plane writes the kubeconfig there", name, protocol.KubeconfigValueKey)
	}
	return ""
}

func (s Secret) isOwnedBy(cluster *Cluster) bool {
	for _, owner := range s.Owners {
		isCluster := owner.Group == Group && owner.Kind == "Cluster" && owner.UID == cluster.UID
		isControlPlane := owner.Reference == cluster.ControlPlane && owner.Name != ""
		if isCluster || isControlPlane {
			return true
		}
	}
	return false
}

// Warning times of KubeconfigExpiring: a day before the end, or the last quarter of a credential that lives shorter
// than four days. Providers that issue credentials for an hour would otherwise never be without the warning.
const (
	warningTime  = 24 * time.Hour
	warningShare = 4
)

// warnAt returns when to warn that a credential ends. It returns false if it is not known to end.
func (v Validity) warnAt() (time.Time, bool) {
	if v.Until.IsZero() {
		return time.Time{}, false
	}
	before := warningTime
	if life := v.Until.Sub(v.From); !v.From.IsZero() && life > 0 {
		before = min(before, life/warningShare)
	}
	return v.Until.Add(-before), true
}
