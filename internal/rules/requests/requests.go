package requests

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// IsOurs reports whether this hub grants a request. Otherwise the request has the label of another manager.
func IsOurs(request *fleet.ClusterRegistration) bool {
	return request.Labels[fleet.LabelClusterManagement] == ""
}

// IsRecovery reports whether a request is a recovery request.
func IsRecovery(request *fleet.ClusterRegistration) bool {
	return request.Annotations[annotation.AgentTicket] != ""
}

// HasReason reports whether the condition Granted of a request has a reason.
func HasReason(request *fleet.ClusterRegistration, reason string) bool {
	said := conditions.Get(request.Status.Conditions, conditions.Granted)
	return said != nil && said.Reason == reason
}

// Counts reports whether a request takes a place of its client and token. Requests of another manager do not count.
// Nor do requests that Rancher Fleet granted, because it is unknown whether they are used.
func Counts(request *fleet.ClusterRegistration) bool {
	_, noted := request.Annotations[annotation.LastSeenAtGrant]
	return IsOurs(request) && request.DeletionTimestamp == nil && (!request.Status.Granted || noted)
}

// InProgress reports whether the hub still works on the answer to a request. A request that is rejected, or waits for
// the operator, costs nothing until something else changes.
func InProgress(request *fleet.ClusterRegistration) bool {
	if request.Status.Granted || request.DeletionTimestamp != nil {
		return false
	}
	said := conditions.Get(request.Status.Conditions, conditions.Granted)
	if said == nil {
		return true
	}
	switch said.Reason {
	case conditions.ReasonTakeoverPending, conditions.ReasonClientIDMissing, conditions.ReasonClientIDTaken, conditions.ReasonClientIDTooLong,
		conditions.ReasonClientIDNotAllowed, conditions.ReasonCredentialTaken, conditions.ReasonTooManyClusters, conditions.ReasonNamespaceTaken, conditions.ReasonNameTaken,
		conditions.ReasonClusterManagedElsewhere:
		return false
	}
	return true
}

// Used reports whether the agent has reported with the credential of a granted request: the Cluster's last heartbeat
// differs from the one recorded before the grant. For requests that Rancher Fleet granted this is unknown. A missing
// Cluster has no heartbeat.
func Used(request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	before, noted := request.Annotations[annotation.LastSeenAtGrant]
	if !noted || cluster == nil {
		return false
	}
	return clusters.LastSeen(cluster) != "" && !clusters.IsHeartbeat(before, cluster)
}

// Unused reports whether a granted request is known not to be used by its agent yet.
func Unused(request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	_, noted := request.Annotations[annotation.LastSeenAtGrant]
	return noted && !Used(request, cluster)
}

// IsOlder orders requests by creation, then by the time of the grant. The API stores both in seconds, so that ties
// are decided by the last write, which is the grant, and then by name. Of any two requests exactly one is older.
func IsOlder(a, b *fleet.ClusterRegistration) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if x, y := grantedAt(a), grantedAt(b); x != y {
		return x != "" && (y == "" || x < y) // a request that is not granted yet is the newer one
	}
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && order != 0 {
		return order < 0
	}
	return a.Name < b.Name
}

func grantedAt(request *fleet.ClusterRegistration) string {
	if granted := conditions.Get(request.Status.Conditions, conditions.Granted); granted != nil && granted.Status == corev1.ConditionTrue {
		return granted.LastUpdateTime
	}
	return ""
}

// IsForAnother reports whether a token is for another client ID than that of a request. A token without the annotation is
// for any. So is nil, for requests that name no token.
//
// A request only claims its token. A client that claims a token that it does not hold gains nothing: only the account of
// that token can read the answer.
func IsForAnother(token *fleet.ClusterRegistrationToken, request *fleet.ClusterRegistration) bool {
	if token == nil {
		return false
	}
	only, limited := token.Annotations[annotation.TokenForClientID]
	return limited && only != request.Spec.ClientID
}

// Precedes reports whether the first of two requests of one name, in different workspaces, is the older one. In the same
// second the workspace decides. The order never changes.
func Precedes(a, b *fleet.ClusterRegistration) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Namespace < b.Namespace
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
