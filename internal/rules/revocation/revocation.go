package revocation

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Outcome describes what an order on a Cluster changes, in the order of the fields. The zero value changes nothing.
type Outcome struct {
	// Block means that the pinned key of the Cluster is blocked. This comes first, so that the agent cannot return with
	// the key before it is blocked.
	Block bool
	// DeleteAccounts means that the accounts of the Cluster's agents are deleted, and with them their credentials.
	DeleteAccounts bool
	// Done are the annotations that record the orders as carried out.
	Done map[string]string
}

// orders maps the annotation of each order to the one that records its last value. Another value is another order.
func orders() map[string]string {
	return map[string]string{
		annotation.RevokeCredential: annotation.CredentialRevoked,
		annotation.RevokeKey:        annotation.KeyRevoked,
	}
}

// Decide returns what the annotations of a Cluster order and was not carried out yet. The rules are idempotent: an
// order that was interrupted is carried out again.
func Decide(cluster *fleet.Cluster) (out Outcome) {
	for order, record := range orders() {
		value := cluster.Annotations[order]
		if value == "" || value == cluster.Annotations[record] {
			continue
		}
		if out.Done == nil {
			out.Done = map[string]string{}
		}
		out.Done[record], out.DeleteAccounts = value, true
		out.Block = out.Block || order == annotation.RevokeKey
	}
	return out
}

// NoKey is the blocked key of a Cluster whose agent had no key: nothing is equal to it.
const NoKey = "none"

// Block changes the annotations of a Cluster so that its key is blocked: its agent is replaced only after a
// confirmation, and a request with the blocked key counts as unsigned.
func Block(cluster *fleet.Cluster) {
	if cluster.Annotations == nil {
		cluster.Annotations = map[string]string{}
	}
	switch pinned := cluster.Annotations[annotation.AgentKey]; {
	case pinned != "":
		cluster.Annotations[annotation.BlockedKey] = pinned
	case cluster.Annotations[annotation.BlockedKey] == "":
		cluster.Annotations[annotation.BlockedKey] = NoKey
	}
	delete(cluster.Annotations, annotation.AgentKey)
}

// IsBlocked reports whether only a confirmation lets an agent return to a Cluster. A key that is pinned after the block
// ends it.
func IsBlocked(cluster *fleet.Cluster) bool {
	return cluster.Annotations[annotation.BlockedKey] != "" && cluster.Annotations[annotation.AgentKey] == ""
}

// OfToken returns the value of the order with which a token revokes the key of a Cluster.
func OfToken(token *fleet.ClusterRegistrationToken) string { return "token-" + string(token.UID) }

// IsDerived reports whether a token orders that the keys of all Clusters that joined with it are revoked.
func IsDerived(token *fleet.ClusterRegistrationToken) bool {
	return token.Annotations[annotation.RevokeDerived] == "true"
}

// JoinedWith reports whether a Cluster, or the request that was granted for it, has joined with a token. The request may
// be nil.
func JoinedWith(token *fleet.ClusterRegistrationToken, cluster *fleet.Cluster, request *fleet.ClusterRegistration) bool {
	uid := string(token.UID)
	return uid != "" && (cluster.Labels[fleet.LabelTokenUID] == uid ||
		request != nil && request.Status.Granted && request.Annotations[annotation.TokenUIDAtGrant] == uid)
}
