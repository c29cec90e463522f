package grant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Limits on what the holder of a token can make the hub do.
const (
	// OpenPerClient is how many requests of one client ID in a workspace have a place: those that are not granted, and those
	// that were granted and are not superseded yet. An agent of a release that creates one request at each start needs
	// several.
	OpenPerClient = 10
	// OpenPerToken is how many requests of one token are answered at a time. The tokens of a workspace that do not exist
	// count as one.
	OpenPerToken = 100
	// maxClusterLabels is how many labels a request brings to its Cluster.
	maxClusterLabels = 64
	// maxClientID is how long the client ID of a Cluster that the hub creates may be.
	maxClientID = 1024
	// maxNamedLabels is how many labels that are left out a message names.
	maxNamedLabels = 5
)

// unknownToken stands for the token of requests that name none that exists.
const unknownToken = "unknown"

// CreatedWith returns how Clusters created with a token are annotated; nil is no token that exists.
func CreatedWith(token *fleet.ClusterRegistrationToken) string {
	if token == nil {
		return unknownToken
	}
	return string(token.UID)
}

// Counts reports whether a request takes a place of its client and token. Requests that other implementations granted do
// not: nothing tells whether they are used.
func Counts(request *fleet.ClusterRegistration) bool {
	_, noted := request.Annotations[fleet.AnnotationLastSeenAtGrant]
	return request.DeletionTimestamp == nil && (!request.Status.Granted || noted)
}

// InProgress reports whether the hub still works on the answer to a request. A request that is rejected, or waits for the
// operator, costs nothing until something else changes.
func InProgress(request *fleet.ClusterRegistration) bool {
	if request.Status.Granted || request.DeletionTimestamp != nil {
		return false
	}
	said := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
	if said == nil {
		return true
	}
	switch said.Reason {
	case fleet.ReasonTakeoverPending, fleet.ReasonClientIDMissing, fleet.ReasonClientIDTaken, fleet.ReasonClientIDTooLong,
		fleet.ReasonCredentialTaken, fleet.ReasonTooManyClusters, fleet.ReasonNamespaceTaken, fleet.ReasonNameTaken,
		fleet.ReasonClusterManagedElsewhere:
		return false
	}
	return true
}

// InLine decides about a request that has no place: ofClient says that there are OpenPerClient older ones of the same
// client, else there are OpenPerToken older ones of the same token.
func InLine(request *fleet.ClusterRegistration, ofClient bool, now time.Time) Outcome {
	ends := request.CreationTimestamp.Add(CredentialLife)
	if !now.Before(ends) {
		return Outcome{Stage: Abandoned} // its agent has asked again
	}
	what := fmt.Sprintf("%d older requests that name this token, or tokens that do not exist, are being answered", OpenPerToken)
	if ofClient {
		what = fmt.Sprintf("%d older requests with this clientID are there", OpenPerClient)
	}
	return Outcome{
		Stage: Queued, Ends: ends, Reason: fleet.ReasonTooManyRequests, ClusterName: request.Status.ClusterName,
		Message: what + ": this one waits until they are granted, expire or are deleted; if they are a mistake, stop what creates them and run: kubectl delete clusterregistrations -n " + request.Namespace + " NAME",
	}
}

// tooManyClusters is the outcome of a request that would create one Cluster too many.
func tooManyClusters(in Input) Outcome {
	return rejectedFor(in, CredentialLife, fleet.ReasonTooManyClusters, fmt.Sprintf("the token of this request has created %d Clusters, which is the limit of this hub: delete Clusters that are not needed, register with another token, or raise controller.maxClustersPerToken", in.MaxClusters))
}

// unused reports whether a granted request is known not to be used by its agent yet.
func unused(request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	_, noted := request.Annotations[fleet.AnnotationLastSeenAtGrant]
	return noted && !Used(request, cluster)
}

// OfAnotherManager decides about a request with the label of another manager: that one grants it. One that was not
// granted for RejectionLife is abandoned, or anybody who may create requests could keep them for ever.
func OfAnotherManager(request *fleet.ClusterRegistration, now time.Time) Outcome {
	if request.Status.Granted || request.DeletionTimestamp != nil {
		return Outcome{Stage: Leaving}
	}
	ends := request.CreationTimestamp.Add(RejectionLife)
	if !now.Before(ends) {
		return Outcome{Stage: Abandoned}
	}
	return Outcome{Stage: Leaving, Ends: ends}
}

// HeldUntil is when the finalizers of a request that is being deleted are removed; false if nothing holds it. The hub puts
// no finalizer on requests; whoever creates a request can put any.
func HeldUntil(request *fleet.ClusterRegistration) (time.Time, bool) {
	if request.DeletionTimestamp == nil || len(request.Finalizers) == 0 {
		return time.Time{}, false
	}
	return request.DeletionTimestamp.Add(RejectionLife), true
}

// sanitized returns the labels an agent may assert: none of ours but the name of its pod, and nothing that
// is no label, with which the Cluster could never be created. Of the others it returns the first, by key. It also
// returns the keys of those left out, without ours.
func sanitized(proposed map[string]string) (labels map[string]string, leftOut []string) {
	labels = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(proposed)) {
		value := proposed[key]
		ours := strings.HasPrefix(key, "fleet.cattle.io/") || strings.HasPrefix(key, "management.cattle.io/")
		switch {
		case ours && key != fleet.LabelCreatedByAgentPod:
		case len(labels) >= maxClusterLabels, len(validation.IsQualifiedName(key)) > 0, len(validation.IsValidLabelValue(value)) > 0:
			leftOut = append(leftOut, key)
		default:
			labels[key] = value
		}
	}
	return labels, leftOut
}

// LeftOut returns a sentence that names which of a request's labels are never copied to a Cluster; it is
// empty if all can be.
func LeftOut(request *fleet.ClusterRegistration) string {
	_, keys := sanitized(request.Spec.ClusterLabels)
	if len(keys) == 0 {
		return ""
	}
	named := make([]string, 0, maxNamedLabels)
	for _, key := range keys[:min(len(keys), maxNamedLabels)] {
		named = append(named, fmt.Sprintf("%.63q", key))
	}
	more := ""
	if len(keys) > maxNamedLabels {
		more = ", …"
	}
	return fmt.Sprintf("%d of spec.clusterLabels are not valid or come after the first %d, and are not copied to a Cluster: %s%s; correct them in the agent's values, or label the Cluster",
		len(keys), maxClusterLabels, strings.Join(named, ", "), more)
}

// ofAnotherManager is the outcome for a request whose Cluster another manager owns: nothing is granted. What was granted
// before, in the Cluster's own namespace, stays as it is, so that the agent goes on working.
func ofAnotherManager(in Input, cluster *fleet.Cluster) Outcome {
	out := rejected(in, fleet.ReasonClusterManagedElsewhere, "the label "+fleet.LabelClusterManagement+
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
