package handshake

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// KubeconfigSecret is where a Cluster's kubeconfig is, whether or not that is allowed; the zero value for a
// Cluster whose agent comes by itself.
func KubeconfigSecret(cluster *fleet.Cluster) types.NamespacedName {
	if cluster.Spec.KubeConfigSecret == "" {
		return types.NamespacedName{}
	}
	namespace := cluster.Spec.KubeConfigSecretNamespace
	if namespace == "" {
		namespace = cluster.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: cluster.Spec.KubeConfigSecret}
}

// KubeconfigNamespaceAllowed says whether a Cluster may name a Secret of the namespace it names: its own,
// the well-known ones, or a cluster namespace.
func KubeconfigNamespaceAllowed(cluster *fleet.Cluster) bool {
	namespace := cluster.Spec.KubeConfigSecretNamespace
	switch namespace {
	case "", cluster.Namespace, "fleet-local", "fleet-default",
		names.SystemNamespace, names.RegistrationNamespace(names.SystemNamespace),
		names.LegacySystemNamespace, names.RegistrationNamespace(names.LegacySystemNamespace):
		return true
	}
	return strings.HasPrefix(namespace, "cluster-")
}

// hubAddress is how the agent will reach the hub: as the kubeconfig Secret says, else as configured.
func hubAddress(in ImportInput) (url string, ca []byte) {
	url, ca = in.Config.APIServerURL, in.Config.APIServerCA
	if in.Kubeconfig == nil {
		return url, ca
	}
	if own := in.Kubeconfig.Data[APIServerURLKey]; len(own) > 0 {
		url = string(own)
	}
	if own := in.Kubeconfig.Data[APIServerCAKey]; len(own) > 0 {
		ca = own
	}
	return url, ca
}

func hubCA(in ImportInput) []byte {
	_, ca := hubAddress(in)
	return ca
}
