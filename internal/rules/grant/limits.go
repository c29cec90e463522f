package grant

import (
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// RejectionLife is how long a rejected request is kept, so that people can see the reason.
const RejectionLife = 24 * time.Hour

// Limits on the work that the holder of a token can cause on the hub.
const (
	// OpenPerClient is the number of places for requests of one client ID in a workspace: for requests that are not
	// granted, and for granted ones that are not superseded yet. An agent of a release that creates one request at
	// each start needs several.
	OpenPerClient = 10
	// OpenPerToken is the number of requests of one token that are answered at a time. All tokens of a workspace that
	// do not exist count as one.
	OpenPerToken = 100
	// maxClientID is the maximum length in bytes of the client ID of a Cluster that the hub creates.
	maxClientID = 1024
)

// unknownToken stands for the token of requests that name no existing token.
const unknownToken = "unknown"

// CreatedWith returns the annotation of Clusters that were created with a token. nil means that the token does not
// exist.
func CreatedWith(token *fleet.ClusterRegistrationToken) string {
	if token == nil {
		return unknownToken
	}
	return string(token.UID)
}

// queued returns the outcome for a request that has no place.
func queued(in Input) Outcome {
	request := in.Request
	ends := request.CreationTimestamp.Add(CredentialLife)
	if !in.Now.Before(ends) {
		return Outcome{Stage: Abandoned} // its agent has sent another request
	}
	what := fmt.Sprintf("%d older requests of this token (or of tokens that do not exist) are not granted yet", OpenPerToken)
	if in.Queue == QueueOfClient {
		what = fmt.Sprintf("%d older requests with this clientID exist", OpenPerClient)
	}
	return Outcome{
		Stage: Queued, Ends: ends, Reason: conditions.ReasonTooManyRequests, ClusterName: request.Status.ClusterName,
		Message: what + ": this request waits for them and is deleted 40 minutes after its creation; if they are a mistake, stop what creates them and run: kubectl delete clusterregistrations.fleet.cattle.io -n " + request.Namespace + " NAME",
	}
}

// tooManyClusters returns the outcome for a request whose token has already created the maximum number of Clusters.
func tooManyClusters(in Input) Outcome {
	return rejectedFor(in, CredentialLife, conditions.ReasonTooManyClusters, fmt.Sprintf("the token of this request has created %d Clusters, which is the limit of this hub: delete Clusters that are not needed, register with another token, or raise controller.maxClustersPerToken", in.MaxClusters))
}

// requestOfOtherManager returns the outcome for a request with the label of another manager. If it is not granted within
// RejectionLife it is abandoned. Otherwise any client that may create requests could make them stay for ever. Agents send
// recovery requests to this hub only, and without the label.
func requestOfOtherManager(in Input) Outcome {
	request := in.Request
	if request.Status.Granted || request.DeletionTimestamp != nil {
		return Outcome{Stage: OtherManager}
	}
	ends := request.CreationTimestamp.Add(RejectionLife)
	if !in.Now.Before(ends) || requests.IsRecovery(request) {
		return Outcome{Stage: Abandoned}
	}
	return Outcome{Stage: OtherManager, Ends: ends}
}

// heldUntil returns when the finalizers of a request that is being deleted are removed. It returns false if the
// request has no finalizers or is not being deleted. The hub adds no finalizer to requests, but clients can create
// requests with any. Those of a recovery request that was not granted are removed at once, because they only keep it.
func heldUntil(request *fleet.ClusterRegistration) (time.Time, bool) {
	if request.DeletionTimestamp == nil || len(request.Finalizers) == 0 {
		return time.Time{}, false
	}
	if requests.IsRecovery(request) && !request.Status.Granted {
		return request.DeletionTimestamp.Time, true
	}
	return request.DeletionTimestamp.Add(RejectionLife), true
}

// clusterManagedElsewhere returns the outcome for a request whose Cluster another manager owns: nothing is granted. Existing
// rights in the Cluster's own namespace stay, so that the agent keeps working.
func clusterManagedElsewhere(in Input, cluster *fleet.Cluster) Outcome {
	out := rejected(in, conditions.ReasonClusterManagedElsewhere, "the label "+fleet.LabelClusterManagement+
		" of Cluster "+cluster.Name+" names another manager, so this hub grants nothing for it: if this hub is to manage it, run "+
		"`kubectl -n "+cluster.Namespace+" label clusters.fleet.cattle.io "+cluster.Name+" "+fleet.LabelClusterManagement+"-`")
	if out.Stage == Abandoned {
		return out
	}
	out.Stage = ManagedElsewhere
	if in.Request.Status.Granted && in.Account != nil {
		out.ClusterName, out.Granted, out.Ends = cluster.Name, true, time.Time{}
	}
	return out
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
