package grant

import fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

// isForAnother reports whether a token is for another client ID. A token without the annotation is for any, and nil for
// none in particular.
//
// A request only claims its token. A client that claims a token that it does not hold gains nothing: only the account of
// that token can read the answer. A request that claims none is answered for several tokens, so readers leaves out those
// for other client IDs.
func isForAnother(token *fleet.ClusterRegistrationToken, clientID string) bool {
	if token == nil {
		return false
	}
	only, limited := token.Annotations[fleet.AnnotationTokenForClientID]
	return limited && only != clientID
}
