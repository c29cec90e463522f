package clustersecrets

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Purpose is the suffix of a Secret's name.
type Purpose string

// The Secrets of a cluster.
const (
	CA         Purpose = "ca"
	Accounts   Purpose = "sa"
	Kubeconfig Purpose = "kubeconfig"
)

// KeyValue is the key of the kubeconfig, and of bootstrap data, in their Secrets.
const KeyValue = "value"

// maxValue limits what is parsed. A kubeconfig of this package has less than 4 KiB.
const maxValue = 64 << 10

// Name returns the name of a cluster's Secret.
func Name(cluster string, purpose Purpose) string { return cluster + "-" + string(purpose) }

// Owner is the control plane whose Secrets these are.
type Owner struct {
	// Cluster is the namespace and the name of the Cluster.
	Cluster types.NamespacedName
	// Reference refers to the LabControlPlane, as the controller of the Secrets.
	Reference metav1.OwnerReference
}

// OwnerOf returns the owner of the Secrets of this Cluster and its control plane.
func OwnerOf(controlPlane *api.LabControlPlane, cluster string) Owner {
	return Owner{
		Cluster:   types.NamespacedName{Namespace: controlPlane.Namespace, Name: cluster},
		Reference: contract.Controller(controlPlane, "LabControlPlane"),
	}
}

// NewCA returns the Secret of a new CA.
func (o Owner) NewCA(now time.Time) (*corev1.Secret, error) {
	ca, err := pki.NewAuthority(o.Cluster.Name, now)
	if err != nil {
		return nil, fmt.Errorf("creating the CA of Cluster %s: %w", o.Cluster, err)
	}
	return o.secret(CA, pairData(ca.Pair)), nil
}

// NewAccounts returns the Secret of a new key for ServiceAccount tokens.
func (o Owner) NewAccounts() (*corev1.Secret, error) {
	key, err := pki.NewAccountKey()
	if err != nil {
		return nil, fmt.Errorf("creating the ServiceAccount key of Cluster %s: %w", o.Cluster, err)
	}
	return o.secret(Accounts, pairData(key)), nil
}

func pairData(pair pki.Pair) map[string][]byte {
	return map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key}
}

func (o Owner) secret(purpose Purpose, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Cluster.Namespace, Name: Name(o.Cluster.Name, purpose),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: o.Cluster.Name},
			OwnerReferences: []metav1.OwnerReference{o.Reference},
		},
		Type: clusterv1.ClusterSecretType,
		Data: data,
	}
}

// ReadCA returns the CA in a Secret that this control plane or the user has created.
func (o Owner) ReadCA(secret *corev1.Secret) (pki.Authority, error) {
	pair, err := o.pair(secret)
	if err != nil {
		return pki.Authority{}, err
	}
	ca, err := pki.ParseAuthority(pair)
	if err != nil {
		return pki.Authority{}, fmt.Errorf("the Secret %s/%s contains no CA: write a PEM certificate of a CA to %s and its key to %s",
			secret.Namespace, secret.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return ca, nil
}

// ReadAccounts returns the key of ServiceAccount tokens in a Secret that this control plane or the user has created.
func (o Owner) ReadAccounts(secret *corev1.Secret) (pki.Pair, error) {
	pair, err := o.pair(secret)
	if err != nil {
		return pki.Pair{}, err
	}
	if !isPrivateKey(pair.Key) {
		return pki.Pair{}, fmt.Errorf("the Secret %s/%s contains no private key: write one in PEM to %s", secret.Namespace, secret.Name, corev1.TLSPrivateKeyKey)
	}
	return pair, nil
}

func (o Owner) pair(secret *corev1.Secret) (pki.Pair, error) {
	if err := o.check(secret); err != nil {
		return pki.Pair{}, err
	}
	if controller := metav1.GetControllerOf(secret); controller != nil && controller.UID != o.Reference.UID {
		return pki.Pair{}, foreign(secret)
	}
	pair := pki.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
	if len(pair.Certificate) > maxValue || len(pair.Key) > maxValue {
		return pki.Pair{}, fmt.Errorf("the Secret %s/%s is too large: a certificate and a key may have %d bytes each", secret.Namespace, secret.Name, maxValue)
	}
	return pair, nil
}

// check returns an error if a Secret has not the type and label by which Cluster API finds the Secrets of the cluster.
func (o Owner) check(secret *corev1.Secret) error {
	if secret.Type != clusterv1.ClusterSecretType {
		return fmt.Errorf("the Secret %s/%s has the type %.60q, not %s: delete it, then it is created again", secret.Namespace, secret.Name, secret.Type, clusterv1.ClusterSecretType)
	}
	if label := secret.Labels[clusterv1.ClusterNameLabel]; label != o.Cluster.Name {
		return fmt.Errorf("the Secret %s/%s has the label %s=%.63s, not %s: delete it, then it is created again", secret.Namespace, secret.Name, clusterv1.ClusterNameLabel, label, o.Cluster.Name)
	}
	return nil
}

func foreign(secret *corev1.Secret) error {
	return fmt.Errorf("the Secret %s/%s belongs to another object: delete it, then it is created again", secret.Namespace, secret.Name)
}
