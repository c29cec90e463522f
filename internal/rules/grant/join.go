package grant

import (
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Signer returns the token whose account reads the answer to a request, if the request is signed and not answered
// yet. The signature is for this account. It returns nil if several accounts may read the answer.
func Signer(in Input) *fleet.ClusterRegistrationToken {
	annotations := in.Request.Annotations
	if requests.IsRecovery(in.Request) || annotations[fleet.AnnotationAgentKey] == "" || annotations[fleet.AnnotationAgentProof] == "" || isAnswered(in) {
		return nil
	}
	if tokens := readers(in); len(tokens) == 1 {
		return tokens[0]
	}
	return nil
}

// keyOf returns the public key that has signed a request, or "". Before the request is answered, the signature is
// verified. After that the recorded key counts.
func keyOf(in Input) string {
	annotations := in.Request.Annotations
	if isAnswered(in) {
		return annotations[fleet.AnnotationAgentKeyAtGrant]
	}
	if requests.IsRecovery(in.Request) {
		return recoveryKey(in)
	}
	if Signer(in) == nil || in.ReaderAccount == "" {
		return ""
	}
	key := annotations[fleet.AnnotationAgentKey]
	claims := identity.Claims{ClientID: in.Request.Spec.ClientID, ClientRandom: in.Request.Spec.ClientRandom, Account: in.ReaderAccount}
	if identity.Verify(key, annotations[fleet.AnnotationAgentProof], claims) != nil {
		return ""
	}
	return key
}

// joinDue reports whether the credential of a signed request is in use and the Cluster does not show its key yet. A
// blocked key is never pinned again. A Cluster of a new agent shows the token already, and the agent reports the key: the
// hub pins it without a request that tells who reported it.
func joinDue(in Input, cluster *fleet.Cluster) bool {
	request := in.Request
	key, token := request.Annotations[fleet.AnnotationAgentKeyAtGrant], request.Annotations[fleet.AnnotationTokenUIDAtGrant]
	if key == "" || key == cluster.Annotations[fleet.AnnotationBlockedKey] || !requests.Used(request, cluster) {
		return false
	}
	showsToken := token == "" || cluster.Labels[fleet.LabelTokenUID] == token
	if key == in.ReportedKey && showsToken && isOnlyAgent(in) {
		return false
	}
	return cluster.Annotations[fleet.AnnotationAgentKey] != key || !showsToken
}

// joinOf returns what to record on the Cluster, or nil. Any token holder can make a request that claims another token
// and has a key of its own. It is granted if the claimed token is the right one, but only the holder of that token can
// read the answer. So a key is pinned when the account of its request has reported, and no sooner.
func joinOf(in Input, cluster *fleet.Cluster) *Join {
	if !joinDue(in, cluster) || in.Account == nil || in.HeartbeatAccount != string(in.Account.UID) {
		return nil
	}
	annotations := in.Request.Annotations
	return &Join{Key: annotations[fleet.AnnotationAgentKeyAtGrant], TokenUID: annotations[fleet.AnnotationTokenUIDAtGrant]}
}
