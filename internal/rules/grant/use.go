package grant

import (
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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
	if before, noted := in.Request.Annotations[fleet.AnnotationLastSeenAtGrant]; !noted || before != "" {
		return false
	}
	for _, other := range in.Others {
		if other.UID != in.Request.UID {
			return false
		}
	}
	return true
}

// useUnknown reports whether a credential may be in use, and only the account of the last heartbeat tells. Each
// heartbeat is read once.
func useUnknown(in Input, cluster *fleet.Cluster) bool {
	if !in.Request.Status.Granted || !requests.Used(in.Request, cluster) || inUse(in, cluster) || in.HeartbeatAsked == clusters.LastSeen(cluster) {
		return false
	}
	return isFetchable(in) || in.Credential == nil && mayBeFetched(in)
}

// writesOfUse returns how to delete an answer that is in use.
func writesOfUse(in Input, out Outcome) []Write {
	switch {
	case !out.InUse:
		return nil
	case isFetchable(in):
		return []Write{RetireCredential}
	case in.Credential == nil && in.ReaderExists && mayBeFetched(in):
		return []Write{RemoveReader}
	}
	return nil
}
