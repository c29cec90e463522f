package supervision

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// KnowsIdentity reports whether a token belongs to one of the accounts. The token comes from a downstream cluster and
// is not verified. If the answer is false, the hub delivers a bootstrap token to that cluster; if it is true, it does
// not.
func KnowsIdentity(token string, accounts []types.UID) bool {
	parsed, err := protocol.ParseAccountToken(token)
	return err == nil && slices.Contains(accounts, types.UID(parsed.AccountUID))
}

// AllReplaced reports whether every granted registration of a Cluster has lost its account. The hub then knows, without
// waiting for silence, that the agent's identity is dead.
func AllReplaced(requests []*fleet.ClusterRegistration) bool {
	granted := 0
	for _, request := range requests {
		if !request.Status.Granted || request.DeletionTimestamp != nil {
			continue
		}
		granted++
		if said := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted); said == nil || said.Reason != fleet.ReasonAccountReplaced {
			return false
		}
	}
	return granted > 0
}
