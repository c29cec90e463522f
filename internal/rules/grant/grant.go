package grant

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/copies"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// SetID identifies the set of objects that belong to a ClusterRegistration. Changing it orphans them.
const SetID = "cluster-registration"

// CredentialLife is how long an agent has to fetch the answer to its request.
const CredentialLife = 40 * time.Minute

// RejectionLife is how long a rejected request is kept, so that people can see the reason.
const RejectionLife = 24 * time.Hour

// Stage describes the progress of a ClusterRegistration.
type Stage string

const (
	// Leaving means that the request or its Cluster is being deleted, and with it the rights and the credential.
	Leaving Stage = "Leaving"
	// Abandoned means that the request is deleted because no agent waits for its answer, or no account could read it.
	Abandoned Stage = "Abandoned"
	// Rejected means that the request can never be granted as it is. Its condition explains why.
	Rejected Stage = "Rejected"
	// OtherManager means that the request has the label of another manager, which grants it.
	OtherManager Stage = "OtherManager"
	// Queued means that older requests of the same client or token come first. Nothing is created for the request.
	Queued Stage = "InLine"
	// TakeoverPending means that the Cluster has another agent, and nothing proves that this request comes from the
	// same one. Nothing is created for the request, and the other agent's objects are not touched.
	TakeoverPending Stage = "TakeoverPending"
	// ManagedElsewhere means that another manager owns the Cluster: nothing is granted. With Outcome.Granted set, the
	// existing grant stays as it is. Otherwise it is revoked.
	ManagedElsewhere Stage = "ManagedElsewhere"
	// AwaitingCluster means that no Cluster has the request's client ID yet; one is created.
	AwaitingCluster Stage = "AwaitingCluster"
	// AwaitingNamespace means that the Cluster has no namespace for the account yet.
	AwaitingNamespace Stage = "AwaitingNamespace"
	// AwaitingRights means that the account and its rights are written, but the cache does not show them yet.
	AwaitingRights Stage = "AwaitingRights"
	// Unproven means that a recovery request proves nothing, so it is deleted. Its message is for the Cluster's Event.
	Unproven Stage = "Unproven"
	// Minting means that only the account's bearer token is missing. It is requested now.
	Minting Stage = "Minting"
	// Done means that the credential was handed out, and was fetched or has expired. The rights stay.
	Done Stage = "Granted"
)

// Input describes the observed state of a ClusterRegistration. A nil object does not exist.
type Input struct {
	Now     time.Time
	Request *fleet.ClusterRegistration
	// Clusters are those of the workspace with the request's client ID, in any order.
	Clusters []*fleet.Cluster
	// Derived is the Cluster with the name that is derived from the client ID, whatever its client ID is.
	Derived *fleet.Cluster
	// Named is the Cluster in the request's status.
	Named *fleet.Cluster
	// Account is the request account in the cache. RightsExist reports the same about its rights, ReaderExists about
	// the right to read the answer.
	Account                   *corev1.ServiceAccount
	RightsExist, ReaderExists bool
	// Credential is the Secret that answers the request.
	Credential *corev1.Secret
	// NamedToken is the ClusterRegistrationToken that the request names. Imported is the one that an import created for
	// the Cluster.
	NamedToken, Imported *fleet.ClusterRegistrationToken
	// Tokens are all tokens of the workspace. They are read only if the request names none.
	Tokens []*fleet.ClusterRegistrationToken
	// Importer is the Cluster with the name that ImporterOf returns.
	Importer *fleet.Cluster
	// Others are the workspace's requests with the same client ID or for the same Cluster.
	Others []*fleet.ClusterRegistration
	// SameAnswer are the requests of all workspaces, including this one, that the same credential Secret would answer.
	// Begun are the UIDs of those that this process has begun to answer.
	SameAnswer []*fleet.ClusterRegistration
	Begun      []types.UID
	// Namesakes are the requests of the same name in other workspaces.
	Namesakes []*fleet.ClusterRegistration
	// ReaderAccount is the UID of the account of the token that Signer returns, or "" if it does not exist.
	ReaderAccount string
	// NamespaceTaken means that the Cluster's computed namespace was created for another Cluster.
	NamespaceTaken bool
	// HeartbeatAccount is the UID of the account that sent the Cluster's last heartbeat, or "" if it is unknown. See
	// NeedsHeartbeatAccount.
	HeartbeatAccount string
	// ReportedKey is the key that the hub pins in any case, because the agent has reported it and the Cluster has none, or
	// "". See rules/recovery.
	ReportedKey string
	// UsedBy is the UID of the account that is known to have used the request's credential, or "" if that is unknown.
	UsedBy string
	// HeartbeatAsked is the heartbeat whose account was read last, in RFC 3339, or "" if none was.
	HeartbeatAsked string
	// Recovery is set for recovery requests. Their ReaderAccount is the recovery account of the workspace.
	Recovery Recovery
	// WorkspaceLeaves means that the request's namespace is being deleted.
	WorkspaceLeaves bool
	// Queue is the queue in which the request has no place, if any.
	Queue Queue
	// Crowded means that the request's client has more than OpenPerClient requests.
	Crowded bool
	// TokenClusters is the number of Clusters that the request's token has created. MaxClusters limits it; 0 means
	// unlimited.
	TokenClusters, MaxClusters int
	// CredentialLifetime is the lifetime of the credentials of agents that renew them. 0 means that they do not expire.
	CredentialLifetime time.Duration
	// IgnoreLabels drops the labels that the agent proposes.
	IgnoreLabels bool
	// HubAddress is the hubaddress.Hash of the hub's configuration.
	HubAddress string
	Namespaces clusters.Namespaces
}

// Outcome describes the desired state of a ClusterRegistration.
type Outcome struct {
	Stage Stage
	// Writes lists the writes to make now, in this order. After an error nothing more is written,
	// unless the failed write OnlyDeletes.
	Writes []Write
	// Reason is a condition reason that names the problem. Message explains it and the remedy.
	Reason, Message string
	// Ends is when a waiting request is processed again and deleted. It is zero if the request does not expire.
	Ends time.Time
	// CreateCluster is the Cluster to create for a client without one.
	CreateCluster *fleet.Cluster
	// Own makes the Cluster the request's only owner and records the heartbeat before the grant.
	Own *Ownership
	// Children is the complete set of the request's objects. It is empty when the request is being deleted.
	Children []runtime.Object
	// Mint, if set, requests the bearer token with which Credential becomes the answer. Reader lets the account of
	// the request's token read the answer. It is written before the answer, together with the Children, because the
	// API server takes a while to check who grants which rights.
	Mint       *protocol.Mint
	Credential protocol.Credential
	Reader     []runtime.Object
	// Key is the public key that has signed the request that is answered now, or "". Its agent also gets what it needs to
	// return after a loss.
	Key string
	// Sealed means that the answer is encrypted for this key.
	Sealed bool
	// EndConfirmation means that the confirmation on the Cluster is removed, because its request was answered. A client
	// could choose the same name for another request.
	EndConfirmation bool
	// RecoveredBy, if set, is recorded on the Cluster: the last pods that have recovered it and used the answer.
	RecoveredBy string
	// Alternating are two pods that recover the Cluster in turn.
	Alternating []string
	// Join, if set, is recorded on the Cluster, because the credential of a signed request is in use.
	Join *Join
	// Unpin means that the Cluster's pinned key is removed before the credential is handed out: another agent, which
	// has no key, may replace the one with the key.
	Unpin bool
	// Unreadable means that no account may read the answer and no agent has used it: the request names a token that
	// does not exist.
	Unreadable bool
	// LeftOut names the labels of a granted request that are never copied to a Cluster.
	LeftOut string
	// InUse means that the agent uses the credential. It has stored it and does not read it again.
	InUse bool
	// Superseded are older requests of the same client. They are deleted because the new credential is in use.
	Superseded []string
	// ClusterName and Granted are the request's status.
	ClusterName string
	Granted     bool
}

// Ownership describes what the grant writes into a request's metadata.
type Ownership struct {
	Owner metav1.OwnerReference
	// LastSeen is the Cluster's last heartbeat before the grant in RFC 3339, or "" if there was none. A different
	// heartbeat is the first use of the credential.
	LastSeen string
	// TokenUID is the UID of the ClusterRegistrationToken that the request names. "" removes the recorded UID.
	TokenUID string
	// Key is the public key that has signed the request. "" removes the recorded key.
	Key string
	// Lifetime is the lifetime of the credential, or "" if it does not expire.
	Lifetime string
	// HubAddress is the hubaddress.Hash of the hub's configuration. "" is not recorded.
	HubAddress string
}

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
	return requests.IsOurs(in.Request) && !in.WorkspaceLeaves && in.Queue == NoQueue
}

func decide(in Input) Outcome {
	switch {
	case !requests.IsOurs(in.Request):
		return ofOtherManager(in)
	case in.WorkspaceLeaves:
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
	case leaving(in, cluster):
		return Outcome{Stage: Leaving, ClusterName: in.Request.Status.ClusterName, Granted: in.Request.Status.Granted}
	case requests.IsRecovery(in.Request) && !isAnswered(in) && isUnproven(in, cluster):
		return Outcome{Stage: Unproven, Message: whyUnproven(in)}
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
		return ofAnotherManager(in, cluster)
	case takesOver(in, cluster):
		return pending(in, cluster)
	}
	return give(in, cluster)
}

// whyRejected returns why a request can never be granted as it is. reason is empty if it can.
func whyRejected(in Input, cluster *fleet.Cluster) (reason, message string) {
	switch {
	case in.Request.Spec.ClientID == "":
		return fleet.ReasonClientIDMissing, "the request has no clientID: set one in the agent's values, or leave it to the agent, which takes the UID of its kube-system namespace"
	case cluster == nil && in.Derived != nil:
		return fleet.ReasonClientIDTaken, "a Cluster of the name that belongs to this clientID exists with another clientID: rename that Cluster, or create one with this clientID"
	case cluster == nil && len(in.Request.Spec.ClientID) > maxClientID:
		return fleet.ReasonClientIDTooLong, "the clientID has more than 1024 bytes: set a shorter one in the agent's values"
	case !in.Request.Status.Granted && isForAnother(in.NamedToken, in.Request.Spec.ClientID):
		return fleet.ReasonClientIDNotAllowed, "the token that this request names is for another clientID: create a token for this cluster with `fleet token create`, and install the agent with it"
	case refused(in):
		return fleet.ReasonCredentialTaken, "another request has this clientID and clientRandom: ask with another clientRandom"
	}
	return "", ""
}

// awaitCluster returns the outcome for a request whose Cluster has to be created first. Its agent may read the answer
// from the start, so that it can watch for it.
func awaitCluster(in Input, made *fleet.Cluster) Outcome {
	out := Outcome{Stage: AwaitingCluster, CreateCluster: made}
	if !in.Request.Status.Granted {
		out.Reader = reader(in, made)
	}
	return out
}

// give decides how far the grant of a request whose Cluster exists has progressed.
func give(in Input, cluster *fleet.Cluster) Outcome {
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
			out.Reader = reader(in, cluster)
		}
		return out
	}
	out.Children = requestRights(in, cluster)
	if accountReplaced(in, cluster) {
		out.Reason, out.Message = fleet.ReasonAccountReplaced, "the agent's account was deleted, and its token with it: the account was created again, but an agent that has fetched its credential has to register again; raise spec.redeployAgentGeneration of its Cluster, or give the agent another bootstrap Secret"
	}
	switch {
	case awaitsRights(in, cluster):
		out.Stage = AwaitingRights
		if !in.Request.Status.Granted { // otherwise the answer was given, and only the rights are repaired
			out.Reader = reader(in, cluster)
		}
	case answered(in, cluster), isRevoked(in, cluster):
		return done(in, cluster, out)
	default:
		out.Stage, out.Granted = Minting, true
		out.Mint = &protocol.Mint{Namespace: in.Account.Namespace, Account: in.Account.Name, Lifetime: protocol.TokenLifetime}
		if lifetime := lifetimeOf(in); lifetime > 0 {
			out.Mint.Lifetime, out.Mint.Renewed = lifetime, true
		}
		out.Credential, out.Key = credentialOf(cluster, in.Namespaces), keyOf(in)
		out.Sealed = requests.IsRecovery(in.Request)
		out.Reader = reader(in, cluster)
		out.Unreadable = unreadable(in, cluster)
		out.Unpin = cluster.Annotations[fleet.AnnotationAgentKey] != "" && keyOf(in) == ""
	}
	return out
}

// isRevoked reports whether a request was granted to an agent whose key is blocked by now. It gets no other credential.
func isRevoked(in Input, cluster *fleet.Cluster) bool {
	return in.Request.Status.Granted && revocation.IsBlocked(cluster) && !isConfirmed(in, cluster)
}

// namespaceTaken returns the outcome for a request whose Cluster has no namespace of its own. A granted request stays
// granted. Any other is deleted after CredentialLife, when its agent has sent another request.
func namespaceTaken(in Input, out Outcome) Outcome {
	out.Stage, out.Own, out.Reason = AwaitingNamespace, nil, fleet.ReasonNamespaceTaken
	out.Message = "the namespace of Cluster " + out.ClusterName + " was made for another Cluster: see the condition Processed of the Cluster"
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
	out.Stage, out.Granted, out.Superseded = Done, true, superseded(in, cluster)
	out.EndConfirmation = isConfirmed(in, cluster)
	out.Unreadable = unreadable(in, cluster)
	if out.InUse = inUse(in, cluster); out.InUse || reports(in, cluster) {
		out.RecoveredBy = copies.Record(in.Request, cluster, in.Now)
	}
	if isFetchable(in) && !out.InUse {
		out.Reader = reader(in, cluster) // even if the right to read it was removed since
	}
	if in.Crowded && requests.Unused(in.Request, cluster) {
		if out.Ends = in.Request.CreationTimestamp.Add(CredentialLife); !in.Now.Before(out.Ends) {
			return Outcome{Stage: Abandoned} // the answer expired unused, and other requests wait for its place
		}
	}
	out.Join = joinOf(in, cluster)
	if len(out.Superseded) == 0 || !usesAnother(in) {
		return out
	}
	if in.Credential == nil && !out.InUse {
		return Outcome{Stage: Abandoned} // the answer expired unused, and another agent serves the Cluster
	}
	out.Superseded = nil
	return out
}

// reports returns true if the account of a request sent the last heartbeat, even if the status does not show that yet.
func reports(in Input, cluster *fleet.Cluster) bool {
	return in.Account != nil && in.HeartbeatAccount == string(in.Account.UID) && requests.Used(in.Request, cluster)
}

// awaitsRights reports whether a right that must exist before the answer is given is still missing.
func awaitsRights(in Input, cluster *fleet.Cluster) bool {
	return in.Account == nil || !in.RightsExist || !in.Request.Status.Granted && !in.ReaderExists && reader(in, cluster) != nil
}

// accountReplaced reports whether the account of a granted request is gone, or was created again and has sent no
// heartbeat since. All tokens of an account become invalid when it is deleted.
func accountReplaced(in Input, cluster *fleet.Cluster) bool {
	if !in.Request.Status.Granted {
		return false
	}
	return in.Account == nil || requests.HasReason(in.Request, fleet.ReasonAccountReplaced) && !requests.Used(in.Request, cluster)
}

// RightsTaken returns the outcome for a request if another object has the name of one of its rights. what describes
// the conflict, and remedy how to free the name. A granted request stays granted. Otherwise the client has just
// chosen the name, and the other object is left alone.
func RightsTaken(in Input, what, remedy string) Outcome {
	request := in.Request
	if !request.Status.Granted {
		return rejected(in, fleet.ReasonNameTaken, what+": the client that created this registration chose the name, so run `kubectl -n "+
			request.Namespace+" delete clusterregistrations.fleet.cattle.io "+request.Name+"`; an agent asks again, under another name")
	}
	return Outcome{
		Stage: Rejected, Reason: fleet.ReasonNameTaken, Granted: true, ClusterName: request.Status.ClusterName,
		Message: what + ": " + remedy + "; else delete this registration, and its agent asks under another name",
	}
}

// rejected returns the outcome for a request that cannot be granted. It is deleted after RejectionLife.
func rejected(in Input, reason, message string) Outcome {
	return rejectedFor(in, RejectionLife, reason, message)
}

func rejectedFor(in Input, life time.Duration, reason, message string) Outcome {
	ends := in.Request.CreationTimestamp.Add(life)
	if !in.Request.Status.Granted && !in.Now.Before(ends) {
		return Outcome{Stage: Abandoned}
	}
	return Outcome{Stage: Rejected, Reason: reason, Message: message, Ends: ends}
}
