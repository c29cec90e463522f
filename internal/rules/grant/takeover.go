package grant

import (
	"slices"

	"github.com/fleet-hub/fleet/internal/rules/clonedcluster"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// takesOver reports whether a request would replace a registered agent without proof that it may, even if that agent
// is silent. A client ID is not secret: any client with a token of the workspace can use it in a request.
func takesOver(in Input, cluster *fleet.Cluster) bool {
	if isAnswered(in) { // a credential that was handed out is not revoked
		return false
	}
	if requests.IsRecovery(in.Request) { // the recovery account lets no agent join, not even where none is registered
		return !isConfirmed(in, cluster) && (revocation.IsBlocked(cluster) || !isProven(in, cluster))
	}
	return hasAgent(in, cluster) && !mayReplaceAgent(in, cluster)
}

// hasAgent reports whether a Cluster has a registered agent. With a pinned or a blocked key it has one even if its
// registration was deleted, or its status was lost in a restore: the agent returns with its key, or after a confirmation.
func hasAgent(in Input, cluster *fleet.Cluster) bool {
	if agentKey(in, cluster) != "" || revocation.IsBlocked(cluster) {
		return true
	}
	return slices.ContainsFunc(grantedRequests(in, cluster), func(r *fleet.ClusterRegistration) bool { return isRegistered(r, cluster) })
}

// grantedRequests returns the other requests of the same client that were granted for the Cluster.
func grantedRequests(in Input, cluster *fleet.Cluster) (found []*fleet.ClusterRegistration) {
	for _, other := range in.Others {
		if other.Name != in.Request.Name && other.Spec.ClientID == in.Request.Spec.ClientID && other.DeletionTimestamp == nil &&
			other.Status.Granted && other.Status.ClusterName == cluster.Name && !clusters.IsAnother(cluster, other.OwnerReferences) {
			found = append(found, other)
		}
	}
	return found
}

// isRegistered reports whether the agent of a granted request has reported. For requests that Rancher Fleet granted
// this is unknown, so any heartbeat counts. An agent whose account was replaced stays registered, although its grant
// has no first use yet: otherwise the loss of an account would open the Cluster to every token of the workspace.
func isRegistered(request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	if _, noted := request.Annotations[annotation.LastSeenAtGrant]; !noted || requests.HasReason(request, conditions.ReasonAccountReplaced) {
		return clusters.LastSeen(cluster) != ""
	}
	return requests.Used(request, cluster)
}

// mayReplaceAgent reports whether a request may replace the Cluster's agent.
func mayReplaceAgent(in Input, cluster *fleet.Cluster) bool {
	token := in.Request.Labels[fleet.LabelRegistrationToken]
	readable := in.NamedToken
	if token == "" {
		readable = in.Imported // old agents send no label
	}
	switch pinned := agentKey(in, cluster); {
	case isConfirmed(in, cluster): // by a user with write access to the Cluster
		return true
	case revocation.IsBlocked(cluster): // only a confirmation replaces a blocked key
		return false
	case readable != nil && clusters.Owns(cluster, readable.OwnerReferences): // only the token of the Cluster's import can read the answer
		return true
	case pinned != "": // also a key that the agent has only reported: the signature decides, the token does not
		return keyOf(in) == pinned
	}
	// Without a key, the token has to be that of the agent. The request only claims it, but no other token can read the answer.
	return in.NamedToken != nil && slices.ContainsFunc(grantedRequests(in, cluster), func(r *fleet.ClusterRegistration) bool {
		return r.Labels[fleet.LabelRegistrationToken] == token && isTokenOf(r, in.NamedToken)
	})
}

// isTokenOf reports whether a granted request was made with exactly this token. A token that was created again under
// the name of the request's token is another token. Requests that earlier releases granted have no recorded UID: for
// them, only a token that is older than the request is the same, because no other token had the name since.
func isTokenOf(request *fleet.ClusterRegistration, token *fleet.ClusterRegistrationToken) bool {
	if uid := request.Annotations[annotation.TokenUIDAtGrant]; uid != "" {
		return uid == string(token.UID)
	}
	return token.CreationTimestamp.Before(&request.CreationTimestamp)
}

// pending returns the outcome for a request that would take over. After CredentialLife its agent no longer waits for
// the answer, and has sent another request if it still wants to join.
func pending(in Input, cluster *fleet.Cluster) Outcome {
	ends := in.Request.CreationTimestamp.Add(CredentialLife)
	if !in.Now.Before(ends) {
		return Outcome{Stage: Abandoned}
	}
	pods := alternatingIn(in, cluster)
	state, problem, orElse := "another agent is registered for this Cluster", "this request names another token or none", ", or register with that agent's token"
	order := "to replace that agent, even if it is silent"
	switch {
	case revocation.IsBlocked(cluster):
		problem, orElse = "its key was revoked", ""
	case len(pods) > 0:
		problem, orElse = "both send requests alternately: one cluster is probably a copy of the other (pods "+pods[1]+" and "+pods[0]+")", ""
	case requests.IsRecovery(in.Request):
		problem, orElse = "the ticket of this request has expired or may not be used", ""
		if !hasAgent(in, cluster) {
			state, problem = "no agent is registered for this Cluster", "the ticket of this request has expired, or is from before a deletion of the Cluster"
			order = "to register the agent again"
		}
	case agentKey(in, cluster) != "":
		problem, orElse = "this request is not signed with that agent's key", ""
	}
	return Outcome{
		Stage: TakeoverPending, ClusterName: cluster.Name, Ends: ends, Alternating: pods, Reason: conditions.ReasonTakeoverPending,
		Message: state + ", and " + problem + ": " + order + ", run `fleet confirm-takeover " +
			cluster.Name + " " + in.Request.Name + " -n " + cluster.Namespace + "`" + orElse + "; otherwise this request is deleted 40 minutes after its creation",
	}
}

// alternatingIn returns the pods of alternating recoveries if they are why a request waits.
func alternatingIn(in Input, cluster *fleet.Cluster) []string {
	if !requests.IsRecovery(in.Request) || revocation.IsBlocked(cluster) {
		return nil
	}
	return clonedcluster.Alternating(in.Request, cluster, in.Now)
}
