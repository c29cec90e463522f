package importing

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The life of a token that an import makes for its Cluster.
const (
	// TokenTTL is its time to live.
	TokenTTL = 12 * time.Hour
	// TokenReserve is what must be left of it for an import to hand it out: an agent may take a
	// while to be pulled and started.
	TokenReserve = time.Hour
)

// importToken is the token an import makes for its Cluster, and which goes with it.
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

// bootstrapOf is the import identity for the agent, once the token's values are there. The hub's
// address is the effective one, which the values need not have.
func bootstrapOf(in Input, want Status) (protocol.Bootstrap, bool) {
	if in.Values == nil || in.Token.Status.SecretName == "" || in.Values.Type != protocol.SecretTypeValues {
		return protocol.Bootstrap{}, false
	}
	values, err := protocol.ParseValues(in.Values.Data[protocol.ValuesKey])
	if err != nil {
		return protocol.Bootstrap{}, false
	}
	return protocol.Bootstrap{
		APIServerURL: want.APIServerURL, APIServerCA: hubCA(in),
		ClusterNamespace: in.Cluster.Namespace, Token: values.Token, TokenName: in.Token.Name,
		SystemRegistrationNamespace: in.Namespaces.Registration,
	}, true
}

// awaitValues waits for the values of a token, aloud if the token has a trouble of its own.
func awaitValues(token *fleet.ClusterRegistrationToken) Outcome {
	ready := fleet.GetCondition(token.Status.Conditions, fleet.ConditionReady)
	if ready == nil || !fleet.IsTrouble(*ready) {
		return Outcome{Stage: AwaitingToken}
	}
	return blocked(fleet.ReasonTokenBlocked, fmt.Sprintf("the import token %s gets no values (%s): see its condition %s for what to do", token.Name, ready.Reason, fleet.ConditionReady))
}

// TokenLost says whether an agent that has never been heard of could no longer register: the import token that it was
// given is gone, going, of another Cluster that had this name, or about to expire.
func TokenLost(in Input) bool {
	return supervision.NeverHeard(in.Cluster) && (in.Token == nil || in.Token.DeletionTimestamp != nil || tokenUnfit(in))
}

// tokenUnfit says whether an import token is not to be handed out: it goes with a Cluster that had this name before,
// or would end before an agent has had the time to use it.
func tokenUnfit(in Input) bool {
	expires := in.Token.Status.Expires
	return clusters.IsAnother(in.Cluster, in.Token.OwnerReferences) || expires != nil && in.Now.Add(TokenReserve).After(expires.Time)
}
