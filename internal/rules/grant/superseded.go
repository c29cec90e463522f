package grant

import (
	"sort"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/requests"
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
		if givesWay(other, in.Request, cluster) && requests.IsOlder(other, in.Request) {
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
