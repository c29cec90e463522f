package grant

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// takesOver says whether a request would take the place of an agent that is at work, without anything that speaks for
// it. A client ID is no secret: whoever has any token of the workspace can ask with it.
func takesOver(in Input, cluster *fleet.Cluster) bool {
	if in.Request.Status.Granted || in.Credential != nil { // what was handed out is not taken back
		return false
	}
	return slices.ContainsFunc(granted(in, cluster), func(r *fleet.ClusterRegistration) bool { return isLive(r, cluster) }) &&
		!spokenFor(in, cluster)
}

// granted are the other requests of the same client that were granted for the Cluster.
func granted(in Input, cluster *fleet.Cluster) (found []*fleet.ClusterRegistration) {
	for _, other := range in.Others {
		if other.Name != in.Request.Name && other.Spec.ClientID == in.Request.Spec.ClientID && other.DeletionTimestamp == nil &&
			other.Status.Granted && other.Status.ClusterName == cluster.Name && !clusters.IsAnother(cluster, other.OwnerReferences) {
			found = append(found, other)
		}
	}
	return found
}

// isLive says whether the agent of a request was heard of. Of requests that others have granted nobody knows; any
// heartbeat is taken for theirs.
func isLive(request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	if _, noted := request.Annotations[fleet.AnnotationLastSeenAtGrant]; !noted {
		return clusters.LastSeen(cluster) != ""
	}
	return Used(request, cluster)
}

// spokenFor says whether a request comes with a token by which it is known to be of the same agent, whether that agent
// is gone, or whether somebody who may write the Cluster has confirmed it. A request only claims its token, but the
// answer can be read with no other. A request that names no token proves nothing by that: only the token of the Cluster's
// own import, which then is the only reader, speaks for it.
func spokenFor(in Input, cluster *fleet.Cluster) bool {
	token := in.Request.Labels[fleet.LabelRegistrationToken]
	readable := in.Asked
	if token == "" {
		readable = in.Imported // agents of before there was a label
	}
	return in.Stale || cluster.Annotations[fleet.AnnotationConfirmTakeover] == in.Request.Name ||
		readable != nil && ownedBy(cluster, readable.OwnerReferences) ||
		in.Asked != nil && slices.ContainsFunc(granted(in, cluster), func(r *fleet.ClusterRegistration) bool {
			return r.Labels[fleet.LabelRegistrationToken] == token && isTokenOf(r, in.Asked)
		})
}

// isTokenOf reports whether a granted request was made with exactly this token. A token that was created again under
// the name of the request's token is another token. Requests that earlier releases granted have no recorded UID: for
// them, only a token that is older than the request is the same, because no other token had the name since.
func isTokenOf(request *fleet.ClusterRegistration, token *fleet.ClusterRegistrationToken) bool {
	if uid := request.Annotations[fleet.AnnotationTokenUIDAtGrant]; uid != "" {
		return uid == string(token.UID)
	}
	return token.CreationTimestamp.Before(&request.CreationTimestamp)
}

func ownedBy(cluster *fleet.Cluster, owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == "Cluster" && o.UID == cluster.UID })
}

// pending is the outcome for a request that takes over. After CredentialLife no agent waits for its answer any more;
// one that still wants to join has asked anew.
func pending(in Input, cluster *fleet.Cluster) Outcome {
	ends := in.Request.CreationTimestamp.Add(CredentialLife)
	if !in.Now.Before(ends) {
		return Outcome{Stage: Abandoned}
	}
	return Outcome{
		Stage: TakeoverPending, ClusterName: cluster.Name, Ends: ends, Reason: fleet.ReasonTakeoverPending,
		Message: "another agent is registered for this Cluster, and this request comes with another token, or names none: if it is to take that one's place, annotate the Cluster with " + fleet.AnnotationConfirmTakeover + " and the name of this request, or let it ask with the other one's token; else it waits until the other one is no longer heard of",
	}
}

// saysTakeover says whether it was told of a request that it waits to take over.
func saysTakeover(request *fleet.ClusterRegistration) bool {
	said := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
	return said != nil && said.Reason == fleet.ReasonTakeoverPending
}
