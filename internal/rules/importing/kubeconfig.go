package importing

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// KubeconfigRefused returns why a Cluster may not use the Secret it names, and the remedy. An empty reason means that
// it may. A Cluster may use the Secrets of its own namespace. A Secret of another namespace must list the Cluster's
// workspace in annotation.AllowedWorkspaces. A nil Secret was not found: the answer is the same, so that a workspace
// cannot find out which Secrets other namespaces have.
func KubeconfigRefused(cluster *fleet.Cluster, secret *corev1.Secret, conf config.Config) (reason, message string) {
	name := clusters.KubeconfigSecret(cluster)
	if name.Name == "" || name.Namespace == cluster.Namespace {
		return "", ""
	}
	if len(validation.IsDNS1123Label(name.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(name.Name)) > 0 {
		return conditions.ReasonKubeconfigMissing, "no Secret can have the name or the namespace in spec.kubeConfigSecret and spec.kubeConfigSecretNamespace: correct them"
	}
	if conf.LegacyKubeconfigNamespaces && isLegacyNamespace(name.Namespace) || allowsWorkspace(secret, cluster.Namespace) {
		return "", ""
	}
	return conditions.ReasonKubeconfigNamespaceRefused, fmt.Sprintf("Secret %s does not exist, or does not allow the workspace %s to use it: if the workspace may control that cluster, run: kubectl annotate secret -n %s %s %s=%s (if the annotation exists: --overwrite, and keep its other workspaces); or move the Secret to the Cluster's namespace",
		name, cluster.Namespace, name.Namespace, name.Name, annotation.AllowedWorkspaces, cluster.Namespace)
}

// KubeconfigFailed reports whether the last attempt to use the kubeconfig of a Cluster failed, as its condition says.
func KubeconfigFailed(cluster *fleet.Cluster) bool {
	imported := conditions.Get(cluster.Status.Conditions, conditions.Imported)
	if imported == nil || imported.Status != corev1.ConditionFalse {
		return false
	}
	switch imported.Reason {
	case conditions.ReasonKubeconfigRefused, conditions.ReasonKubeconfigExpired, conditions.ReasonKubeconfigInvalid,
		conditions.ReasonDownstreamUnauthorized, conditions.ReasonDownstreamForbidden, conditions.ReasonDownstreamUnreachable,
		conditions.ReasonDownstreamAnswerRefused, conditions.ReasonDownstreamCertificateExpired, conditions.ReasonTLSUntrusted,
		conditions.ReasonTargetIsHub, conditions.ReasonAnotherHub, conditions.ReasonImportedTwice, conditions.ReasonError:
		return true
	}
	return false
}

// allowsWorkspace reports whether a Secret lists a workspace.
func allowsWorkspace(secret *corev1.Secret, workspace string) bool {
	if secret == nil {
		return false
	}
	for allowed := range strings.SplitSeq(secret.Annotations[annotation.AllowedWorkspaces], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == workspace || allowed == "*" {
			return true
		}
	}
	return false
}

// isLegacyNamespace reports whether a namespace is one of those whose kubeconfig Secrets earlier releases allowed
// every workspace to use.
func isLegacyNamespace(namespace string) bool {
	switch namespace {
	case names.LocalWorkspace, "fleet-default",
		names.SystemNamespace, names.RegistrationNamespace(names.SystemNamespace),
		names.LegacySystemNamespace, names.RegistrationNamespace(names.LegacySystemNamespace):
		return true
	}
	return strings.HasPrefix(namespace, "cluster-")
}

// hubAddress returns the URL and the CA of the hub for the agent: those in the kubeconfig Secret, otherwise the
// configured ones.
func hubAddress(in Input) (url string, ca []byte) {
	url, ca = in.Config.APIServerURL, in.Config.APIServerCA
	if in.Kubeconfig == nil {
		return url, ca
	}
	if own := in.Kubeconfig.Data[protocol.APIServerURLKey]; len(own) > 0 {
		url = string(own)
	}
	if own := in.Kubeconfig.Data[protocol.APIServerCAKey]; len(own) > 0 {
		ca = own
	}
	return url, ca
}

func hubCA(in Input) []byte {
	_, ca := hubAddress(in)
	return ca
}
