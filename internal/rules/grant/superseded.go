package grant

import (
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// superseded returns the older requests of the same client or Cluster, once the agent has reported with the new
// credential.
func superseded(in Input, cluster *fleet.Cluster) []string {
	before, noted := in.Request.Annotations[fleet.AnnotationLastSeenAtGrant]
	if seen := clusters.LastSeen(cluster); noted && (seen == "" || seen == before) {
		return nil // the old credential may be the only one in use
	}
	var older []string
	for _, other := range in.Others {
		if givesWay(other, in.Request, cluster) && isOlder(other, in.Request) {
			older = append(older, other.Name)
		}
	}
	sort.Strings(older)
	return older
}

// givesWay reports whether another request is about the same agent: it has the same client ID, or was made for the
// same Cluster when that had another client ID. Two requests with the same client ID and random wait for the same
// credential.
func givesWay(other, request *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	if other.Spec.ClientID == request.Spec.ClientID {
		return other.Spec.ClientRandom != request.Spec.ClientRandom
	}
	return other.Status.ClusterName == cluster.Name
}

// isOlder orders requests by creation, then by the time of the grant. The API stores both in seconds, so that ties
// are decided by the last write, which is the grant, and then by name. Of any two requests exactly one is older.
func isOlder(a, b *fleet.ClusterRegistration) bool {
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
	if granted := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted); granted != nil && granted.Status == corev1.ConditionTrue {
		return granted.LastUpdateTime
	}
	return ""
}

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

// NeedsHeartbeatAccount reports whether Decide needs to know Input.HeartbeatAccount: without it, it would delete older
// requests, not pin a key, or hand out again what is in use. No cache contains the account, so it costs a request.
func NeedsHeartbeatAccount(in Input) bool {
	cluster := ClusterOf(in)
	switch {
	case cluster == nil:
		return false
	case joinDue(in, cluster):
		return decide(in).Stage == Done
	case useUnknown(in, cluster):
		stage := decide(in).Stage
		return stage == Done || stage == Minting
	}
	return len(superseded(in, cluster)) > 0 && len(decide(in).Superseded) > 0
}
