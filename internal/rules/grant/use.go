package grant

import (
	"slices"
	"sort"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// An agent stores its credential before it sends its first heartbeat, and does not read it again. So the credential and
// the right to read it are deleted at the first heartbeat of its account. The import account of a token is bound to one
// Role for each credential that may still be read, and the API server goes through all of them for each of its requests.

// inUse reports whether the agent is known to use the credential that answers a request.
func inUse(in Input, cluster *fleet.Cluster) bool {
	if in.Account == nil || !in.Request.Status.Granted {
		return false
	}
	account := string(in.Account.UID)
	switch {
	case in.UsedBy != "" && in.UsedBy == account:
		return true
	case !requests.Used(in.Request, cluster):
		return false
	case in.HeartbeatAccount != "":
		return in.HeartbeatAccount == account
	}
	return in.UsedBy == "" && isOnlyAgent(in)
}

// isOnlyAgent reports whether only the account of this request can have sent heartbeats: there were none before the
// grant, and the Cluster has no other request. This also holds for agents whose heartbeats do not name their account.
func isOnlyAgent(in Input) bool {
	if before, noted := in.Request.Annotations[annotation.LastSeenAtGrant]; !noted || before != "" {
		return false
	}
	for _, other := range in.Others {
		if other.UID != in.Request.UID {
			return false
		}
	}
	return true
}

// useUnknown reports whether a credential may be in use, and only the account of the last heartbeat tells. That matters
// while the credential may be fetched, or a rival's.
func useUnknown(in Input, cluster *fleet.Cluster) bool {
	switch {
	case !in.Request.Status.Granted, !requests.Used(in.Request, cluster), inUse(in, cluster):
		return false
	case in.HeartbeatAsked == clusters.Heartbeat(cluster): // each is read once
		return false
	case isFetchable(in), in.Credential == nil && mayBeFetched(in):
		return true
	}
	return slices.ContainsFunc(in.Others, func(other *fleet.ClusterRegistration) bool {
		return givesWay(other, in.Request, cluster) && isRival(in, other, cluster)
	})
}

// reports returns true if the account of a request sent the last heartbeat, even if the status does not show that yet.
func reports(in Input, cluster *fleet.Cluster) bool {
	return in.Account != nil && in.HeartbeatAccount == string(in.Account.UID) && requests.Used(in.Request, cluster)
}

// usesAnother reports whether the last heartbeat is known to come from another account than the request's.
func usesAnother(in Input) bool {
	return in.HeartbeatAccount != "" && (in.Account == nil || in.HeartbeatAccount != string(in.Account.UID))
}

// joinDue reports whether the credential of a signed request is in use and the Cluster does not show its key yet. A
// blocked key is never pinned again. A Cluster of a new agent shows the token already, and the agent reports the key: the
// hub pins it without a request that tells who reported it.
func joinDue(in Input, cluster *fleet.Cluster) bool {
	request := in.Request
	key, token := request.Annotations[annotation.AgentKeyAtGrant], request.Annotations[annotation.TokenUIDAtGrant]
	if key == "" || key == cluster.Annotations[annotation.BlockedKey] || !requests.Used(request, cluster) {
		return false
	}
	showsToken := token == "" || cluster.Labels[fleet.LabelTokenUID] == token
	if key == in.ReportedKey && showsToken && isOnlyAgent(in) {
		return false
	}
	return cluster.Annotations[annotation.AgentKey] != key || !showsToken
}

// joinOf returns what to record on the Cluster, or nil. Any token holder can make a request that claims another token
// and has a key of its own. It is granted if the claimed token is the right one, but only the holder of that token can
// read the answer. So a key is pinned when the account of its request has reported, and no sooner.
func joinOf(in Input, cluster *fleet.Cluster) *Join {
	if !joinDue(in, cluster) || in.Account == nil || in.HeartbeatAccount != string(in.Account.UID) {
		return nil
	}
	annotations := in.Request.Annotations
	return &Join{Key: annotations[annotation.AgentKeyAtGrant], TokenUID: annotations[annotation.TokenUIDAtGrant]}
}

// unpinDue reports whether the Cluster still has the key of the agent that a request without a key replaces. Any token
// holder can name the token of the import, so the key stays until the account of the request has reported.
func unpinDue(in Input, cluster *fleet.Cluster) bool {
	replaced := in.Request.Annotations[annotation.ReplacesKey]
	return replaced != "" && replaced == cluster.Annotations[annotation.AgentKey] && requests.Used(in.Request, cluster)
}

// unpins reports whether the agent of a request has reported and replaces one whose key the Cluster still has.
func unpins(in Input, cluster *fleet.Cluster) bool {
	return unpinDue(in, cluster) && reports(in, cluster)
}

// superseded returns the older requests of the same client or Cluster, once the agent has reported with the new
// credential, and its rivals, once it is known that this agent has.
func superseded(in Input, cluster *fleet.Cluster) []string {
	before, noted := in.Request.Annotations[annotation.LastSeenAtGrant]
	if noted && (clusters.LastSeen(cluster) == "" || clusters.IsHeartbeat(before, cluster)) {
		return nil // the old credential may be the only one in use
	}
	used := inUse(in, cluster)
	var ended []string
	for _, other := range in.Others {
		if givesWay(other, in.Request, cluster) && (requests.IsOlder(other, in.Request) || used && isRival(in, other, cluster)) {
			ended = append(ended, other.Name)
		}
	}
	sort.Strings(ended)
	return ended
}

// isRival reports whether two requests were granted before an agent of the Cluster had reported, to agents with different
// keys or, without keys, with different tokens. Once one of them has reported, the other may no longer replace it, so the
// other's answer must not be usable later. An agent with the token of the Cluster's own import may replace any.
func isRival(in Input, other *fleet.ClusterRegistration, cluster *fleet.Cluster) bool {
	theirs, ours := other.Annotations, in.Request.Annotations
	before, noted := ours[annotation.LastSeenAtGrant]
	theirBefore, theirsNoted := theirs[annotation.LastSeenAtGrant]
	token := theirs[annotation.TokenUIDAtGrant]
	switch key := ours[annotation.AgentKeyAtGrant]; {
	case !other.Status.Granted || !noted || !theirsNoted || before != "" || theirBefore != "":
		return false
	case in.Imported != nil && string(in.Imported.UID) == token && clusters.Owns(cluster, in.Imported.OwnerReferences):
		return false
	case key != "":
		return key != theirs[annotation.AgentKeyAtGrant]
	}
	return token != ours[annotation.TokenUIDAtGrant]
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
