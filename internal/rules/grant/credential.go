package grant

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// answered is true when there is nothing more to hand out: the credential is there and works, or it
// was and its time is over.
func answered(in Input) bool {
	if in.Credential == nil {
		return in.Request.Status.Granted && in.Now.After(in.Request.CreationTimestamp.Add(CredentialLife))
	}
	if answersAnother(in) {
		return true // this one's answer was there before it
	}
	credential, err := protocol.ParseCredential(in.Credential.Data)
	return err == nil && protocol.Works(credential.Token, string(in.Account.UID), in.Now)
}

// refused says whether a request cannot be answered since another one was, in its place. What was granted stays.
func refused(in Input) bool { return !in.Request.Status.Granted && answersAnother(in) }

// answersAnother says whether the credential that this request would get is the answer to another one. Were it
// written anew, the two would take turns; were its reading granted, whoever copied a request could read the answer.
func answersAnother(in Input) bool {
	if in.Credential == nil {
		return false
	}
	name := in.Credential.Annotations[fleet.AnnotationClusterRegistration]
	namespace := in.Credential.Annotations[fleet.AnnotationClusterRegistrationNamespace]
	return name != "" && (name != in.Request.Name || namespace != in.Request.Namespace)
}

func credentialOf(cluster *fleet.Cluster, namespaces clusters.Namespaces) protocol.Credential {
	return protocol.Credential{
		DeploymentNamespace: clusters.NamespaceOf(cluster),
		ClusterNamespace:    cluster.Namespace,
		ClusterName:         cluster.Name,
		SystemNamespace:     namespaces.System,
	}
}

// CredentialSecret is the Secret that answers a request. It is no child of the request's set: it goes
// after CredentialLife while the set stays.
func CredentialSecret(request *fleet.ClusterRegistration, registrationNamespace string, credential protocol.Credential) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: answerMeta(registrationNamespace, names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom), credential.ClusterName, request),
		Type:       protocol.SecretTypeCredential,
		Data:       credential.Encode(),
	}
}

// answerMeta is the metadata of the credential Secret and of what makes it readable. The annotations
// name the request, so that all three can be removed with it.
func answerMeta(namespace, name, cluster string, request *fleet.ClusterRegistration) metav1.ObjectMeta {
	meta := objects.Managed(namespace, name)
	meta.Labels[fleet.LabelCluster] = names.SafeConcat(cluster) // names may be longer than labels
	meta.Annotations = map[string]string{
		fleet.AnnotationClusterRegistration:          request.Name,
		fleet.AnnotationClusterRegistrationNamespace: request.Namespace,
	}
	return meta
}

// unreadable says whether an answer is one that nobody may read and nobody uses. A token that goes after its agent
// has joined is missed by nobody; of requests that others have granted, nobody knows.
func unreadable(in Input, cluster *fleet.Cluster) bool {
	before, noted := in.Request.Annotations[fleet.AnnotationLastSeenAtGrant]
	return len(readers(in)) == 0 && noted && clusters.LastSeen(cluster) == before
}

// isFetchable says whether the answer that we gave is there, and is to be read. What another implementation answered
// can be read by what that has made, which is left alone as long.
func isFetchable(in Input) bool {
	return in.Credential != nil && in.Credential.Annotations[fleet.AnnotationClusterRegistration] != "" && !answersAnother(in) &&
		in.Now.Before(in.Credential.CreationTimestamp.Add(CredentialLife))
}

// readers are the tokens whose accounts may read the answer: the one that the request names, or, if that is gone or
// there is none, the one of the Cluster's import. Agents of before there was a label name none; without an import any
// token of the workspace may be theirs, and the Secret's name, which nobody can guess, is what keeps others away.
func readers(in Input) []*fleet.ClusterRegistrationToken {
	switch {
	case in.Asked != nil:
		return []*fleet.ClusterRegistrationToken{in.Asked}
	case in.Imported != nil:
		return []*fleet.ClusterRegistrationToken{in.Imported}
	case in.Request.Labels[fleet.LabelRegistrationToken] != "":
		return nil
	}
	all := slices.DeleteFunc(slices.Clone(in.Tokens), func(t *fleet.ClusterRegistrationToken) bool { return t.DeletionTimestamp != nil })
	slices.SortFunc(all, func(a, b *fleet.ClusterRegistrationToken) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// reader lets the import account that asked read its one credential. A request that names no token we
// know, and that no import made, can be read by nobody: nil.
func reader(in Input, cluster *fleet.Cluster) []runtime.Object {
	tokens := readers(in)
	if len(tokens) == 0 {
		return nil
	}
	name := ReaderName(SharedName(in))
	meta := func() metav1.ObjectMeta {
		return answerMeta(in.Namespaces.Registration, name, cluster.Name, in.Request)
	}
	binding := objects.BindingOf(meta(), "Role", name, accountOf(tokens[0]))
	for _, another := range tokens[1:] {
		binding.Subjects = append(binding.Subjects, accountOf(another))
	}
	return []runtime.Object{
		// watch beside get: an agent of ours learns of its credential the moment it is written.
		objects.RoleOf(meta(), rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "watch"},
			ResourceNames: []string{names.CredentialSecret(in.Request.Spec.ClientID, in.Request.Spec.ClientRandom)},
		}),
		binding,
	}
}

func accountOf(token *fleet.ClusterRegistrationToken) rbacv1.Subject {
	return objects.Subject(token.Namespace, names.ImportAccount(token.Name, string(token.UID)))
}

// RequestAccount is the account of a request's agent.
func RequestAccount(request *fleet.ClusterRegistration, cluster *fleet.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: clusters.NamespaceOf(cluster), Name: names.RequestAccount(request.Name, string(request.UID))}
}

// requestRights are the request account and what it may do: report its Cluster's status, and work on the
// BundleDeployments of its namespace. That it may read Contents, too, see ContentReaders.
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
	return []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
		objects.RoleOf(objects.Managed(request.Namespace, request.Name), rbacv1.PolicyRule{
			APIGroups: []string{fleet.SchemeGroupVersion.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{cluster.Name}, Verbs: []string{"patch"},
		}),
		objects.BindingOf(objects.Managed(request.Namespace, request.Name), "Role", request.Name, to),
		objects.BindingOf(objects.Managed(namespace, request.Name), "ClusterRole", names.BundleDeploymentRole, to),
	}
}
