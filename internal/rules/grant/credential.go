package grant

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// needsNoCredential reports whether there is nothing more to hand out: the credential exists and works, or it existed and
// was used or has expired.
func needsNoCredential(in Input, cluster *fleet.Cluster) bool {
	if in.Credential == nil {
		return in.Request.Status.Granted && (!mayBeFetched(in) || inUse(in, cluster))
	}
	if answersAnother(in) {
		return true // the Secret already answers the other request
	}
	if len(in.Credential.Data[protocol.EncryptedKey]) > 0 { // only its agent can read it
		return in.Credential.Annotations[annotation.CredentialAccount] == string(in.Account.UID)
	}
	credential, err := protocol.ParseCredential(in.Credential.Data)
	if err == nil && requests.Used(in.Request, cluster) && hasExpired(credential.Token, string(in.Account.UID), in.Now) {
		return true // the agent has renewed it
	}
	return err == nil && protocol.Works(credential.Token, string(in.Account.UID), in.Now)
}

func credentialOf(cluster *fleet.Cluster, namespaces clusters.Namespaces) protocol.Credential {
	return protocol.Credential{
		DeploymentNamespace: clusters.NamespaceOf(cluster),
		ClusterNamespace:    cluster.Namespace,
		ClusterName:         cluster.Name,
		SystemNamespace:     namespaces.System,
	}
}

// CredentialSecret returns the Secret that answers a request. It does not belong to the request's set, because it is
// deleted after CredentialLife and the set stays.
func CredentialSecret(request *fleet.ClusterRegistration, registrationNamespace string, credential protocol.Credential) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: answerMeta(registrationNamespace, names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom), credential.ClusterName, request),
		Type:       protocol.SecretTypeCredential,
		Data:       credential.Encode(),
	}
}

// Seal replaces the content of a credential Secret with its encryption for a key. account is the UID of the account of
// the credential.
func Seal(secret *corev1.Secret, key, account string) error {
	document, err := protocol.EncodeData(secret.Data)
	if err != nil {
		return err
	}
	sealed, err := identity.Seal(key, document)
	if err != nil {
		return fmt.Errorf("encrypting an answer: %w", err)
	}
	secret.Data = map[string][]byte{protocol.EncryptedKey: []byte(sealed)}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotation.CredentialAccount, account)
	return nil
}

// AddRecovery adds what its agent needs to return after a loss to a credential Secret.
func AddRecovery(secret *corev1.Secret, recovery protocol.Recovery) {
	maps.Copy(secret.Data, recovery.Encode())
}

// RequestAccount returns the name of the account for a request's agent.
func RequestAccount(request *fleet.ClusterRegistration, cluster *fleet.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: clusters.NamespaceOf(cluster), Name: names.RequestAccount(request.Name, string(request.UID))}
}

// requestRights returns the request account and its rights: to report its Cluster's status and to use the
// BundleDeployments in its namespace. For the right to read Contents, see package contentreaders.
func requestRights(in Input, cluster *fleet.Cluster) []runtime.Object {
	request := in.Request
	account := RequestAccount(request, cluster)
	namespace := account.Namespace
	to := objects.Subject(namespace, account.Name)
	meta := objects.Managed(namespace, account.Name)
	meta.Annotations = map[string]string{
		fleet.AnnotationCluster:                      cluster.Name,
		fleet.AnnotationClusterRegistration:          request.Name,
		fleet.AnnotationClusterRegistrationNamespace: request.Namespace,
	}
	return append([]runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
		objects.RoleOf(objects.Managed(request.Namespace, request.Name), rbacv1.PolicyRule{
			APIGroups: []string{fleet.SchemeGroupVersion.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{cluster.Name}, Verbs: []string{"patch"},
		}),
		objects.BindingOf(objects.Managed(request.Namespace, request.Name), "Role", request.Name, to),
		objects.BindingOf(objects.Managed(namespace, request.Name), "ClusterRole", names.BundleDeploymentRole, to),
	}, renewalRights(in, account)...)
}
