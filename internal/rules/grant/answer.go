package grant

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// CredentialLife is how long an agent has to fetch the answer to its request.
const CredentialLife = 40 * time.Minute

// isAnswered reports whether the request has an answer, or had one. What the hub recorded before no longer changes. The
// answer to another request does not count: a client can choose the ID and the random part that lead to its Secret.
func isAnswered(in Input) bool {
	return in.Request.Status.Granted || in.Credential != nil && !answersAnother(in)
}

// answersAnother reports whether the Secret that would answer this request is the answer to another one. If both
// wrote it, they would overwrite each other for ever. If both could read it, a client that copied a request could
// read its answer.
func answersAnother(in Input) bool {
	if in.Credential == nil {
		return false
	}
	name := in.Credential.Annotations[fleet.AnnotationClusterRegistration]
	namespace := in.Credential.Annotations[fleet.AnnotationClusterRegistrationNamespace]
	return name != "" && (name != in.Request.Name || namespace != in.Request.Namespace)
}

// AnswersEarlier reports whether a Secret, which may be nil, is the answer to an earlier request with the name of this one.
// Any holder of a token can create a request with the name, client ID and random part of one that was deleted. Secrets of
// earlier releases do not name the UID of their request.
func AnswersEarlier(secret *corev1.Secret, request *fleet.ClusterRegistration) bool {
	if secret == nil || secret.Annotations[fleet.AnnotationClusterRegistration] != request.Name ||
		secret.Annotations[fleet.AnnotationClusterRegistrationNamespace] != request.Namespace {
		return false
	}
	answers := secret.Labels[fleet.LabelAnswers]
	return answers != "" && answers != string(request.UID)
}

// mayBeFetched reports whether the agent of a granted request may still be waiting for its credential.
func mayBeFetched(in Input) bool {
	return !in.Now.After(in.Request.CreationTimestamp.Add(CredentialLife))
}

// isFetchable reports whether our answer exists and is to be readable. An answer of Rancher Fleet is readable through its
// own Role, which stays until the credential is deleted.
func isFetchable(in Input) bool {
	return in.Credential != nil && in.Credential.Annotations[fleet.AnnotationClusterRegistration] != "" && !answersAnother(in) &&
		in.Now.Before(in.Credential.CreationTimestamp.Add(CredentialLife))
}

// refused reports whether a request cannot be answered because another request had, has or will get the credential Secret
// of this name. A granted request stays granted.
func refused(in Input) bool {
	switch {
	case in.Request.Status.Granted:
		return false
	case in.Credential != nil && in.Credential.Annotations[fleet.AnnotationClusterRegistration] != "": // else Rancher Fleet's
		return answersAnother(in)
	}
	return slices.ContainsFunc(in.SameAnswer, func(other *fleet.ClusterRegistration) bool { return isCopyOf(in, other) })
}

// isCopyOf reports whether a request is the later one of two that the same Secret would answer. The agent draws the
// random part for each request, so the later one is a copy. It must not get the right to read the Secret, not even
// until the other one is answered. A request that this process has begun to answer is the first one: its writes have
// changed the resource version, which otherwise orders requests of the same second.
func isCopyOf(in Input, other *fleet.ClusterRegistration) bool {
	if other.UID == in.Request.UID || other.DeletionTimestamp != nil {
		return false
	}
	ours, theirs := slices.Contains(in.Begun, in.Request.UID), slices.Contains(in.Begun, other.UID)
	switch {
	case other.Status.Granted:
		return true
	case ours != theirs:
		return theirs
	}
	return requests.IsOlder(other, in.Request)
}

// answerMeta returns the metadata of the credential Secret and of the Role and RoleBinding that make it readable. The
// annotations name the request, so that all three can be deleted with it. With the label, those of several requests are
// deleted together.
func answerMeta(namespace, name, cluster string, request *fleet.ClusterRegistration) metav1.ObjectMeta {
	meta := objects.Managed(namespace, name)
	meta.Labels[fleet.LabelCluster] = names.SafeConcat(cluster) // names may be longer than label values
	meta.Labels[fleet.LabelAnswers] = string(request.UID)
	meta.Annotations = map[string]string{
		fleet.AnnotationClusterRegistration:          request.Name,
		fleet.AnnotationClusterRegistrationNamespace: request.Namespace,
	}
	return meta
}
