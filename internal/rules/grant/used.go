package grant

import (
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Used reports whether the agent has reported with the credential of a granted request: the Cluster's last heartbeat
// differs from the one recorded before the grant. For requests that Rancher Fleet granted this is unknown. A missing
// Cluster has no heartbeat.
func Used(request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	before, noted := request.Annotations[fleet.AnnotationLastSeenAtGrant]
	if !noted || cluster == nil {
		return false
	}
	seen := clusters.LastSeen(cluster)
	return seen != "" && seen != before
}

// usesAnother reports whether the last heartbeat is known to come from another account than the request's.
func usesAnother(in Input) bool {
	return in.HeartbeatAccount != "" && (in.Account == nil || in.HeartbeatAccount != string(in.Account.UID))
}

// NeedsHeartbeatAccount reports whether Decide needs to know Input.HeartbeatAccount: the request was answered, and
// older ones go if its credential is in use. No cache contains it, so it costs a request.
func NeedsHeartbeatAccount(in Input) bool {
	cluster := ClusterOf(in)
	return cluster != nil && cluster.Status.Namespace != "" && !awaitsRights(in, cluster) && answered(in) && len(superseded(in, cluster)) > 0
}
