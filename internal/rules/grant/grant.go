package grant

import (
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clonedcluster"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// SetID identifies the set of objects that belong to a ClusterRegistration. Changing it orphans them.
const SetID = "cluster-registration"

// Decide returns the desired state of a request.
func Decide(in Input) Outcome {
	out := decide(in)
	if until, held := heldUntil(in.Request); held {
		if out.Ends = until; !in.Now.Before(until) {
			out.Writes = []Write{RemoveFinalizers}
			return out
		}
	}
	out.Writes = writes(in, out)
	return out
}

// NeedsCluster reports whether Decide needs to know the Cluster of a request, and everything else that is found through
// caches. Finding it costs more, the more requests a client has.
func NeedsCluster(in Input) bool {
	return requests.IsOurs(in.Request) && !in.WorkspaceDeleting && in.Queue == NoQueue
}

// NeedsHeartbeatAccount reports whether Decide needs to know Input.HeartbeatAccount: without it, it would delete older
// requests, not pin a key, or hand out again what is in use. No cache contains the account, so it costs a request.
func NeedsHeartbeatAccount(in Input) bool {
	cluster := ClusterOf(in)
	if cluster == nil {
		return false
	}
	unknown := useUnknown(in, cluster)
	if !unknown && !joinDue(in, cluster) && !unpinDue(in, cluster) && len(superseded(in, cluster)) == 0 {
		return false
	}
	stage := decide(in).Stage
	return stage == Done || stage == Minting && unknown
}

// CreatesWithToken reports whether Decide creates a Cluster with the request's token, unless TokenClusters is too high.
func CreatesWithToken(in Input) bool {
	return !requests.IsRecovery(in.Request) && decide(in).CreateCluster != nil
}

func decide(in Input) Outcome {
	switch {
	case !requests.IsOurs(in.Request):
		return requestOfOtherManager(in)
	case in.WorkspaceDeleting:
		return Outcome{Stage: Leaving, ClusterName: in.Request.Status.ClusterName, Granted: in.Request.Status.Granted}
	case in.Queue != NoQueue:
		return queued(in)
	}
	return decideNow(in, ClusterOf(in))
}

// decideNow decides about a request that neither waits nor leaves with its workspace. cluster may be nil.
func decideNow(in Input, cluster *fleet.Cluster) Outcome {
	switch {
	case abandoned(in, cluster):
		return Outcome{Stage: Abandoned}
	case provesNothing(in, cluster): // even if it would leave, because until then it has a place
		return Outcome{Stage: Unproven, Message: whyUnproven(in)}
	case leaving(in, cluster):
		return ofLeaving(in, cluster)
	case cluster == nil && requests.IsRecovery(in.Request):
		return awaitCluster(in, readmitted(in))
	case cluster == nil && ofGoneImport(in):
		return Outcome{Stage: Abandoned}
	}
	if reason, message := whyRejected(in, cluster); reason != "" {
		return rejected(in, reason, message)
	}
	if cluster == nil {
		return createFor(in)
	}
	return grantFor(in, cluster)
}

// ofLeaving returns the outcome for a request whose rights are deleted. Kubernetes deletes the request, except if its owner
// is of a kind that Kubernetes does not know: any client can name such an owner. So a request that was never granted and has
// no Cluster ends.
func ofLeaving(in Input, cluster *fleet.Cluster) Outcome {
	out := Outcome{Stage: Leaving, ClusterName: in.Request.Status.ClusterName, Granted: in.Request.Status.Granted}
	if !out.Granted && cluster == nil && in.Request.DeletionTimestamp == nil {
		out.Ends = in.Request.CreationTimestamp.Add(CredentialLife)
	}
	return out
}

// createFor decides about a request that needs a new Cluster.
func createFor(in Input) Outcome {
	if in.MaxClusters > 0 && in.TokenClusters >= in.MaxClusters {
		return tooManyClusters(in)
	}
	return awaitCluster(in, newCluster(in))
}

// grantFor decides about a request whose Cluster exists.
func grantFor(in Input, cluster *fleet.Cluster) Outcome {
	switch {
	case clusters.ManagedElsewhere(cluster):
		return clusterManagedElsewhere(in, cluster)
	case takesOver(in, cluster):
		return pending(in, cluster)
	}
	return progressOf(in, cluster)
}

// whyRejected returns why a request can never be granted as it is. reason is empty if it can.
func whyRejected(in Input, cluster *fleet.Cluster) (reason, message string) {
	switch {
	case in.Request.Spec.ClientID == "":
		return conditions.ReasonClientIDMissing, "the request has no clientID: set one in the agent's values, or leave it to the agent, which takes the UID of its kube-system namespace"
	case cluster == nil && in.Derived != nil:
		return conditions.ReasonClientIDTaken, "a Cluster of the name that belongs to this clientID exists with another clientID: rename that Cluster, or create one with this clientID"
	case cluster == nil && len(in.Request.Spec.ClientID) > maxClientID:
		return conditions.ReasonClientIDTooLong, "the clientID has more than 1024 bytes: set a shorter one in the agent's values"
	case !in.Request.Status.Granted && requests.IsForAnother(in.NamedToken, in.Request):
		return conditions.ReasonClientIDNotAllowed, "the token that this request names is for another clientID: create a token for this cluster with `fleet token create`, and install the agent with it"
	case refused(in):
		return conditions.ReasonCredentialTaken, "another request has this clientID and clientRandom: repeat the request with another clientRandom"
	}
	return "", ""
}

// awaitCluster returns the outcome for a request whose Cluster has to be created first. Its agent may read the answer
// from the start, so that it can watch for it.
func awaitCluster(in Input, made *fleet.Cluster) Outcome {
	out := Outcome{Stage: AwaitingCluster, CreateCluster: made}
	if !in.Request.Status.Granted {
		out.CredentialAccess = credentialAccess(in, made)
	}
	return out
}

// progressOf decides how far the grant of a request whose Cluster exists has progressed.
func progressOf(in Input, cluster *fleet.Cluster) Outcome {
	out := Outcome{ClusterName: cluster.Name, Granted: in.Request.Status.Granted, Own: ownership(in, cluster)}
	if !in.IgnoreLabels {
		out.LeftOut = requests.LeftOut(in.Request)
	}
	if in.NamespaceTaken {
		return namespaceTaken(in, out)
	}
	if cluster.Status.Namespace == "" {
		out.Stage = AwaitingNamespace
		if !out.Granted {
			out.CredentialAccess = credentialAccess(in, cluster)
		}
		return out
	}
	out.Children = requestRights(in, cluster)
	if accountReplaced(in, cluster) {
		out.Reason, out.Message = conditions.ReasonAccountReplaced, "the agent's ServiceAccount was deleted and created again, so a credential that the agent has fetched is no longer valid. An imported agent and an agent with a recovery key register again by themselves. For any other agent, run: fleet repair "+cluster.Name+" -n "+cluster.Namespace
	}
	switch {
	case awaitsRights(in, cluster):
		out.Stage = AwaitingRights
		if !in.Request.Status.Granted { // otherwise the answer was given, and only the rights are repaired
			out.CredentialAccess = credentialAccess(in, cluster)
		}
	case needsNoCredential(in, cluster), isRevoked(in, cluster):
		return done(in, cluster, out)
	default:
		out.Stage, out.Granted = Minting, true
		out.Mint = &protocol.Mint{Namespace: in.Account.Namespace, Account: in.Account.Name, Lifetime: protocol.TokenLifetime}
		if lifetime := lifetimeOf(in); lifetime > 0 {
			out.Mint.Lifetime, out.Mint.Renewed = lifetime, true
		}
		out.Credential, out.Key = credentialOf(cluster, in.Namespaces), keyOf(in)
		out.Sealed = requests.IsRecovery(in.Request)
		out.CredentialAccess, out.Unreadable = credentialAccess(in, cluster), unreadable(in, cluster)
		out.Unpin = cluster.Annotations[annotation.AgentKey] != "" && keyOf(in) == "" && isConfirmed(in, cluster)
	}
	return out
}

// isRevoked reports whether a request was answered for an agent whose key is blocked by now. It gets no other credential,
// even if its status does not say yet that it was granted.
func isRevoked(in Input, cluster *fleet.Cluster) bool {
	return isAnswered(in) && revocation.IsBlocked(cluster) && !isConfirmed(in, cluster)
}

// namespaceTaken returns the outcome for a request whose Cluster has no namespace of its own. A granted request stays
// granted. Any other is deleted after CredentialLife, when its agent has sent another request.
func namespaceTaken(in Input, out Outcome) Outcome {
	out.Stage, out.Own, out.Reason = AwaitingNamespace, nil, conditions.ReasonNamespaceTaken
	out.Message = "the namespace of Cluster " + out.ClusterName + " was not created for this Cluster. Condition Processed names it and what to do: kubectl describe clusters.fleet.cattle.io -n " + in.Request.Namespace + " " + out.ClusterName
	if out.Granted {
		return out
	}
	if out.Ends = in.Request.CreationTimestamp.Add(CredentialLife); !in.Now.Before(out.Ends) {
		return Outcome{Stage: Abandoned}
	}
	return out
}

// done returns the outcome of a request that was answered.
func done(in Input, cluster *fleet.Cluster, out Outcome) Outcome {
	out.Stage, out.Granted, out.InUse = Done, true, inUse(in, cluster)
	if in.Crowded && requests.Unused(in.Request, cluster) { // other requests wait for its place
		if out.Ends = in.Request.CreationTimestamp.Add(CredentialLife); !in.Now.Before(out.Ends) {
			return Outcome{Stage: Abandoned}
		}
	}
	older := superseded(in, cluster)
	switch {
	case !usesAnother(in):
		out.Superseded = older
	case len(older) > 0 && in.Credential == nil && !out.InUse:
		return Outcome{Stage: Abandoned} // the answer expired unused, and another agent serves the Cluster
	}
	if isFetchable(in) && !out.InUse {
		out.CredentialAccess = credentialAccess(in, cluster) // even if the right to read it was removed since
	}
	if out.InUse || reports(in, cluster) {
		out.RecoveredBy = clonedcluster.Record(in.Request, cluster, in.Now)
	}
	out.EndConfirmation, out.Unreadable = isConfirmed(in, cluster), unreadable(in, cluster)
	out.Join, out.Unpin = joinOf(in, cluster), unpins(in, cluster)
	return out
}

// awaitsRights reports whether a right that must exist before the answer is given is still missing.
func awaitsRights(in Input, cluster *fleet.Cluster) bool {
	return in.Account == nil || !in.RightsExist || !in.Request.Status.Granted && !in.AccessExists && credentialAccess(in, cluster) != nil
}

// accountReplaced reports whether the account of a granted request is gone, or was created again and has sent no
// heartbeat since. All tokens of an account become invalid when it is deleted.
func accountReplaced(in Input, cluster *fleet.Cluster) bool {
	if !in.Request.Status.Granted {
		return false
	}
	return in.Account == nil || requests.HasReason(in.Request, conditions.ReasonAccountReplaced) && !requests.Used(in.Request, cluster)
}

// RightsTaken returns the outcome for a request if another object has the name of one of its rights. what describes
// the conflict, and remedy how to free the name. A granted request stays granted. Otherwise the client has just
// chosen the name, and the other object is left alone.
func RightsTaken(in Input, what, remedy string) Outcome {
	request := in.Request
	if !request.Status.Granted {
		return rejected(in, conditions.ReasonNameTaken, what+": the client that created this registration chose the name, so run `kubectl -n "+
			request.Namespace+" delete clusterregistrations.fleet.cattle.io "+request.Name+"`; the agent registers again under another name")
	}
	return Outcome{
		Stage: Rejected, Reason: conditions.ReasonNameTaken, Granted: true, ClusterName: request.Status.ClusterName,
		Message: what + ": " + remedy + "; otherwise delete this registration: its agent registers again under another name",
	}
}
