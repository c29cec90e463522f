package hubaddress

import (
	"slices"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Hash returns a hash of the configured hub URL and CA. It returns "" if no URL is configured: then it is
// unknown which address the agents that registered themselves use.
func Hash(conf config.Config) string {
	if conf.APIServerURL == "" {
		return ""
	}
	hash, err := names.StatusHash([]string{conf.APIServerURL, string(conf.APIServerCA)})
	if err != nil {
		return "" // text can always be encoded
	}
	return hash
}

// Published describes the hub document.
type Published struct {
	// Hash is that of the address that it was signed for, or "" if none is published. Serial is the serial of the first
	// document with this address.
	Hash   string
	Serial int64
}

// ReadsDocument reports whether an agent reports which hub document it has.
func ReadsDocument(cluster *fleet.Cluster) bool { return cluster.Status.Agent.HubSerial > 0 }

// IsUnknown reports whether an agent that registered itself does not know the address and the CAs of the hub that
// are now configured. An agent that reads the hub document knows them if it has a document that is at least as new as
// the first one with this address. Another agent cannot be sent the new address once the old one is gone. registrations
// are those of its Cluster. Only the newest granted one counts, because it is in use, and only if the address was
// recorded when it was granted.
func IsUnknown(conf config.Config, cluster *fleet.Cluster, registrations []*fleet.ClusterRegistration, published Published) bool {
	now := Hash(conf)
	switch {
	case cluster.Spec.KubeConfigSecret != "", now == "", cluster.Annotations[annotation.HubAddress] == now:
		return false // the import updates the agent, or the operator says that it knows the address
	case published.Hash != "" && ReadsDocument(cluster):
		return published.Hash != now || cluster.Status.Agent.HubSerial < published.Serial
	}
	told := addressAtGrant(cluster, registrations)
	return told != "" && told != now
}

// addressAtGrant returns the hash of the address when the registration in use was granted, or "" if it is unknown.
func addressAtGrant(cluster *fleet.Cluster, registrations []*fleet.ClusterRegistration) string {
	granted := slices.DeleteFunc(slices.Clone(registrations), func(r *fleet.ClusterRegistration) bool {
		return !r.Status.Granted || r.DeletionTimestamp != nil || r.Status.ClusterName != cluster.Name
	})
	if len(granted) == 0 {
		return ""
	}
	live := slices.MaxFunc(granted, func(a, b *fleet.ClusterRegistration) int {
		if requests.IsOlder(a, b) {
			return -1
		}
		return 1
	})
	return live.Annotations[annotation.HubAddressAtGrant]
}
