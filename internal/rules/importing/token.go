package importing

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Lifetime of the import token of a Cluster.
const (
	// TokenTTL is its time to live.
	TokenTTL = 12 * time.Hour
	// TokenReserve is the remaining lifetime that an import requires of a token. Pulling and starting an agent may
	// take a while.
	TokenReserve = time.Hour
)

// importToken returns the import token of a Cluster. The Cluster owns it.
func importToken(cluster *fleet.Cluster) *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{
		TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: names.ImportToken(cluster.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
			}},
		},
		Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: TokenTTL}},
	}
}

// bootstrapOf returns the agent's bootstrap document, if the token has its values. The hub's address is the effective
// one, which may differ from the address in the values.
func bootstrapOf(in Input, want Status) (protocol.Bootstrap, bool) {
	return Bootstrap(in.Token, in.Values, HubAddress{URL: want.APIServerURL, CA: hubCA(in)}, in.Namespaces)
}

// Bootstrap returns the bootstrap document for a token and the Secret with its values. It returns false if the token has
// no values yet.
func Bootstrap(token *fleet.ClusterRegistrationToken, secret *corev1.Secret, address HubAddress, namespaces clusters.Namespaces) (protocol.Bootstrap, bool) {
	if secret == nil || token.Status.SecretName == "" || secret.Type != protocol.SecretTypeValues {
		return protocol.Bootstrap{}, false
	}
	values, err := protocol.ParseValues(secret.Data[protocol.ValuesKey])
	if err != nil {
		return protocol.Bootstrap{}, false
	}
	return protocol.Bootstrap{
		APIServerURL: address.URL, APIServerCA: address.CA, ClusterNamespace: token.Namespace, Token: values.Token, TokenName: token.Name,
		SystemRegistrationNamespace: namespaces.Registration,
	}, true
}

// awaitValues waits for the values of a token. It reports a problem if the token's condition has one.
func awaitValues(token *fleet.ClusterRegistrationToken) Outcome {
	if reason, message := TokenObstacle(token); reason != "" {
		return blocked(reason, message)
	}
	return Outcome{Stage: AwaitingToken}
}

// TokenObstacle returns why a token gets no values, if its condition reports a problem, or an empty reason.
func TokenObstacle(token *fleet.ClusterRegistrationToken) (reason, message string) {
	ready := conditions.Get(token.Status.Conditions, conditions.Ready)
	if ready == nil || !conditions.IsTrouble(*ready) {
		return "", ""
	}
	return conditions.ReasonTokenBlocked, fmt.Sprintf("the import token %s gets no values (%s): see its condition %s for what to do: kubectl describe clusterregistrationtokens.fleet.cattle.io -n %s %s", token.Name, ready.Reason, conditions.Ready, token.Namespace, token.Name)
}

// TokenLost reports whether an agent that has never reported can no longer register: its import token is missing,
// being deleted, about to expire, or owned by an earlier Cluster of the same name.
func TokenLost(in Input) bool {
	return supervision.NeverReported(in.Cluster) && (in.Token == nil || in.Token.DeletionTimestamp != nil || tokenUnfit(in))
}

// tokenUnfit reports whether an import token must not be delivered: it is owned by an earlier Cluster of the same
// name, or it expires before an agent has had the time to use it.
func tokenUnfit(in Input) bool {
	expires := in.Token.Status.Expires
	return clusters.IsAnother(in.Cluster, in.Token.OwnerReferences) || expires != nil && in.Now.Add(TokenReserve).After(expires.Time)
}

// tokenIsOwn reports whether the import token exists and was created by this Cluster's import.
func tokenIsOwn(in Input) bool {
	return in.Token != nil && in.Token.DeletionTimestamp == nil && clusters.Owns(in.Cluster, in.Token.OwnerReferences)
}

// MayHaveUsedToken returns the registration that was granted with the Cluster's import token, if the agent has reported
// since. The token was used if the last heartbeat came from the account of this registration; which account it was
// costs a request. It returns nil if the token cannot be ended anyway.
func MayHaveUsedToken(in Input, granted []*fleet.ClusterRegistration) *fleet.ClusterRegistration {
	if in.Stale || in.Inherited || supervision.NeverReported(in.Cluster) || !tokenIsOwn(in) {
		return nil
	}
	for _, request := range granted {
		if request.DeletionTimestamp == nil && request.Status.Granted && request.Status.ClusterName == in.Cluster.Name &&
			request.Labels[fleet.LabelRegistrationToken] == in.Token.Name &&
			request.Annotations[annotation.TokenUIDAtGrant] == string(in.Token.UID) && requests.Used(request, in.Cluster) {
			return request
		}
	}
	return nil
}
