package grant

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// SetID is the set of the objects behind a ClusterRegistration. Changing it orphans them.
const SetID = "cluster-registration"

// CredentialLife is how long an agent has to fetch the answer to its request.
const CredentialLife = 40 * time.Minute

// RejectionLife is how long a request that was rejected is kept, for people to see why.
const RejectionLife = 24 * time.Hour

// Stage says how far a ClusterRegistration is.
type Stage string

const (
	// Leaving means that the request or its Cluster is going: its rights and its credential go.
	Leaving Stage = "Leaving"
	// Abandoned means that nobody waits for an answer to the request any more, or that nobody could read it: it
	// is deleted.
	Abandoned Stage = "Abandoned"
	// Rejected means that the request can never be granted as it is; its condition says why.
	Rejected Stage = "Rejected"
	// Queued means that older requests of the same client or token come first. Nothing is made for it.
	Queued Stage = "InLine"
	// TakeoverPending means that the Cluster has another agent, and that nothing says that this request comes from
	// the same one. Nothing is made for it, and nothing of the other one is touched.
	TakeoverPending Stage = "TakeoverPending"
	// ManagedElsewhere means that another manager owns the Cluster: nothing is granted. With Granted set, what was
	// granted before stays as it is; else it is revoked.
	ManagedElsewhere Stage = "ManagedElsewhere"
	// AwaitingCluster means that no Cluster has the request's client ID yet; one is created.
	AwaitingCluster Stage = "AwaitingCluster"
	// AwaitingNamespace means that the Cluster has no namespace for the account yet.
	AwaitingNamespace Stage = "AwaitingNamespace"
	// AwaitingRights means that the account and its rights are written but not yet seen.
	AwaitingRights Stage = "AwaitingRights"
	// Minting means that everything is there but the account's bearer token, asked for now.
	Minting Stage = "Minting"
	// Done means that the credential was handed out, fetched or has expired; the rights stay.
	Done Stage = "Granted"
)

// Input is what was found about a ClusterRegistration. A nil object was not found.
type Input struct {
	Now     time.Time
	Request *fleet.ClusterRegistration
	// Clusters are those of the workspace with the request's client ID, in any order.
	Clusters []*fleet.Cluster
	// Derived is the Cluster of the name that the client ID gives, whatever its client ID.
	Derived *fleet.Cluster
	// Named is the Cluster in the request's status.
	Named *fleet.Cluster
	// Account is the request account, seen in the cache; RightsExist says the same of its rights, ReaderExists of the
	// right to read the answer.
	Account                   *corev1.ServiceAccount
	RightsExist, ReaderExists bool
	// Credential is the Secret that answers the request.
	Credential *corev1.Secret
	// Asked is the ClusterRegistrationToken the request names; Imported the one an import made for the Cluster.
	Asked, Imported *fleet.ClusterRegistrationToken
	// Tokens are all of the workspace. They are looked for only where a request names none.
	Tokens []*fleet.ClusterRegistrationToken
	// Importer is the Cluster of the name that ImporterOf gives.
	Importer *fleet.Cluster
	// Others are the workspace's requests with the same client ID or for the same Cluster.
	Others []*fleet.ClusterRegistration
	// Namesakes are the requests of the same name in other workspaces.
	Namesakes []*fleet.ClusterRegistration
	// NamespaceTaken says that the Cluster's computed namespace was made for another Cluster.
	NamespaceTaken bool
	// Stale says that the Cluster's agent is taken to be gone: it was not heard of for too long.
	Stale bool
	// Speaker is what Speaker says of the Cluster. It is asked for only when the answer to Grant without it has
	// requests to end.
	Speaker string
	// Crowded says that more requests of the same client and token are there than OpenPerClient.
	Crowded bool
	// TokenClusters is how many Clusters the request's token has created, and MaxClusters how many it may; 0 is no limit.
	TokenClusters, MaxClusters int
	// IgnoreLabels drops the labels the agent proposes.
	IgnoreLabels bool
	// HubAddress is the AddressHash of the hub's configuration.
	HubAddress string
	Namespaces clusters.Namespaces
}

// Outcome is what a ClusterRegistration is owed now.
type Outcome struct {
	Stage Stage
	// Reason explains what is wrong, as one of the condition reasons; Message says what to do.
	Reason, Message string
	// Ends is when a request that waits in vain is looked at again, to be given up; zero for all others.
	Ends time.Time
	// CreateCluster is the Cluster to make for a client that has none.
	CreateCluster *fleet.Cluster
	// Own makes the Cluster the request's only owner and notes the heartbeat before the grant.
	Own *Ownership
	// Children is the whole set; empty when the request leaves.
	Children []runtime.Object
	// Mint, if set, asks for the bearer token with which Credential becomes the answer. Reader lets
	// the account that asked read it. It is written before the answer, together with the Children: the
	// API server takes its time to check who gives away which rights.
	Mint       *protocol.Mint
	Credential protocol.Credential
	Reader     []runtime.Object
	// Unreadable means that nobody may read the answer and nobody has used it: the request names no token that
	// exists.
	Unreadable bool
	// LeftOut says which labels of a granted request are never copied to a Cluster.
	LeftOut string
	// Superseded are older requests of the same client, to be deleted: the new credential is in use.
	Superseded []string
	// ClusterName and Granted are the request's status.
	ClusterName string
	Granted     bool
}

// Ownership is what the grant writes into a request's metadata.
type Ownership struct {
	Owner metav1.OwnerReference
	// LastSeen is the Cluster's last heartbeat before the grant, RFC 3339, "" for none. A heartbeat
	// that differs is the first use of the credential.
	LastSeen string
	// TokenUID is the UID of the ClusterRegistrationToken that the request names; "" removes what is recorded.
	TokenUID string
	// HubAddress is the AddressHash of the hub's configuration; "" is not noted.
	HubAddress string
}

// Decide decides what a request is owed now.
func Decide(in Input) Outcome {
	cluster := ClusterOf(in)
	switch {
	case abandoned(in, cluster):
		return Outcome{Stage: Abandoned}
	case leaving(in, cluster):
		return Outcome{Stage: Leaving, ClusterName: in.Request.Status.ClusterName, Granted: in.Request.Status.Granted}
	case cluster == nil && ofGoneImport(in):
		return Outcome{Stage: Abandoned}
	}
	if reason, message := whyRejected(in, cluster); reason != "" {
		return rejected(in, reason, message)
	}
	switch {
	case cluster == nil && in.MaxClusters > 0 && in.TokenClusters >= in.MaxClusters:
		return tooManyClusters(in)
	case cluster == nil:
		return awaitCluster(in, newCluster(in))
	}
	return grantFor(in, cluster)
}

// grantFor is Grant for a request whose Cluster is there.
func grantFor(in Input, cluster *fleet.Cluster) Outcome {
	switch {
	case clusters.ManagedElsewhere(cluster):
		return ofAnotherManager(in, cluster)
	case takesOver(in, cluster):
		return pending(in, cluster)
	}
	return give(in, cluster)
}

// whyRejected returns why a request can never be granted as it is; empty if it can.
func whyRejected(in Input, cluster *fleet.Cluster) (reason, message string) {
	switch {
	case in.Request.Spec.ClientID == "":
		return fleet.ReasonClientIDMissing, "the request has no clientID: set one in the agent's values, or leave it to the agent, which takes the UID of its kube-system namespace"
	case cluster == nil && in.Derived != nil:
		return fleet.ReasonClientIDTaken, "a Cluster of the name that belongs to this clientID exists with another clientID: rename that Cluster, or create one with this clientID"
	case cluster == nil && len(in.Request.Spec.ClientID) > maxClientID:
		return fleet.ReasonClientIDTooLong, "the clientID has more than 1024 bytes: set a shorter one in the agent's values"
	case refused(in):
		return fleet.ReasonCredentialTaken, "another request with this clientID and clientRandom was answered: ask with another clientRandom"
	}
	return "", ""
}

// awaitCluster is the outcome for a request whose Cluster has to be made first. It may read its answer from the beginning, so
// that its agent waits for it by a watch.
func awaitCluster(in Input, made *fleet.Cluster) Outcome {
	out := Outcome{Stage: AwaitingCluster, CreateCluster: made}
	if !in.Request.Status.Granted {
		out.Reader = reader(in, made)
	}
	return out
}

// give decides how far the grant of a request is, whose Cluster is there.
func give(in Input, cluster *fleet.Cluster) Outcome {
	out := Outcome{ClusterName: cluster.Name, Granted: in.Request.Status.Granted, Own: ownership(in, cluster)}
	if !in.IgnoreLabels {
		out.LeftOut = LeftOut(in.Request)
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
		out.Reason, out.Message = fleet.ReasonAccountReplaced, "the agent's account was deleted, and its token with it: the account was made anew, but an agent that has fetched its credential has to register again; raise spec.redeployAgentGeneration of its Cluster, or hand it another bootstrap secret"
	}
	switch {
	case awaitsRights(in, cluster):
		out.Stage = AwaitingRights
		if !in.Request.Status.Granted { // else the answer was given, and only the rights are being healed
			out.Reader = reader(in, cluster)
		}
	case answered(in):
		return done(in, cluster, out)
	default:
		out.Stage, out.Granted = Minting, true
		out.Mint = &protocol.Mint{Namespace: in.Account.Namespace, Account: in.Account.Name, Lifetime: protocol.TokenLifetime}
		out.Credential = credentialOf(cluster, in.Namespaces)
		out.Reader = reader(in, cluster)
		out.Unreadable = unreadable(in, cluster)
	}
	return out
}

// namespaceTaken is the outcome for a request whose Cluster has no namespace of its own. What was granted stays; else the
// request ends when its agent has asked again.
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

// done is the outcome of a request whose answer was given.
func done(in Input, cluster *fleet.Cluster, out Outcome) Outcome {
	out.Stage, out.Granted, out.Superseded = Done, true, superseded(in, cluster)
	out.Unreadable = unreadable(in, cluster)
	if isFetchable(in) {
		out.Reader = reader(in, cluster) // whatever became of it since
	}
	if in.Crowded && unused(in.Request, cluster) {
		if out.Ends = in.Request.CreationTimestamp.Add(CredentialLife); !in.Now.Before(out.Ends) {
			return Outcome{Stage: Abandoned} // its answer has ended unused, and others wait for its place
		}
	}
	if len(out.Superseded) == 0 || !speaksAnother(in) {
		return out
	}
	if in.Credential == nil {
		return Outcome{Stage: Abandoned} // its answer has ended unused, and another agent serves the Cluster
	}
	out.Superseded = nil
	return out
}

// awaitsRights says whether something is still missing without which no answer may be given.
func awaitsRights(in Input, cluster *fleet.Cluster) bool {
	return in.Account == nil || !in.RightsExist || !in.Request.Status.Granted && !in.ReaderExists && reader(in, cluster) != nil
}

// accountReplaced says whether the account of a request that was granted is gone, or has been made anew and was not
// heard of since: with the account, every token of it has ended.
func accountReplaced(in Input, cluster *fleet.Cluster) bool {
	if !in.Request.Status.Granted {
		return false
	}
	said := fleet.GetCondition(in.Request.Status.Conditions, fleet.ConditionGranted)
	return in.Account == nil || said != nil && said.Reason == fleet.ReasonAccountReplaced && !Used(in.Request, cluster)
}

// RightsTaken is the outcome for a request one of whose rights has a name that another object has: what says which, and
// remedy how to give the name to the request. What was granted before stays granted. Else the client has just chosen the
// name, and nothing is to be done to what has it.
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

// rejected is the outcome for a request that cannot be granted; in the end it is removed.
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
