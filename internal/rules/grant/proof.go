package grant

import (
	"cmp"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Signer returns the token whose account reads the answer to a request, if the request is signed and not answered
// yet. The signature is for this account. It returns nil if several accounts may read the answer.
func Signer(in Input) *fleet.ClusterRegistrationToken {
	annotations := in.Request.Annotations
	if requests.IsRecovery(in.Request) || annotations[annotation.AgentKey] == "" || annotations[annotation.AgentProof] == "" || isAnswered(in) {
		return nil
	}
	if tokens := accessTokens(in); len(tokens) == 1 {
		return tokens[0]
	}
	return nil
}

// keyOf returns the public key that has signed a request, or "". Before the request is answered, the signature is
// verified. After that the recorded key counts.
func keyOf(in Input) string {
	annotations := in.Request.Annotations
	if isAnswered(in) {
		return annotations[annotation.AgentKeyAtGrant]
	}
	hubs := []string{""}
	if requests.IsRecovery(in.Request) {
		hubs = []string{identity.Thumbprint(in.Recovery.Hub), ""} // an agent that does not know the hub's key signs for none
	} else if Signer(in) == nil {
		return ""
	}
	if in.ReaderAccount == "" {
		return ""
	}
	claims := identity.Claims{ClientID: in.Request.Spec.ClientID, ClientRandom: in.Request.Spec.ClientRandom, Account: in.ReaderAccount}
	for _, claims.Hub = range hubs {
		if identity.Verify(annotations[annotation.AgentKey], annotations[annotation.AgentProof], claims) == nil {
			return annotations[annotation.AgentKey]
		}
	}
	return ""
}

// agentKey returns the key of a Cluster's agent, or "": the pinned one, or the one that the agent has reported, which is pinned
// a moment later.
func agentKey(in Input, cluster *fleet.Cluster) string {
	return cmp.Or(cluster.Annotations[annotation.AgentKey], in.ReportedKey)
}

// replacesKey returns the key to record of the agent that a request without a key replaces, or "". It is computed until the
// request is answered, as tokenUID is.
func replacesKey(in Input, cluster *fleet.Cluster) string {
	switch {
	case isAnswered(in):
		return in.Request.Annotations[annotation.ReplacesKey]
	case keyOf(in) != "":
		return ""
	}
	return agentKey(in, cluster)
}

// isConfirmed reports whether a user with write access to the Cluster has confirmed a request. The Cluster may be nil.
func isConfirmed(in Input, cluster *fleet.Cluster) bool {
	return cluster != nil && cluster.Annotations[annotation.ConfirmTakeover] == in.Request.Name
}
