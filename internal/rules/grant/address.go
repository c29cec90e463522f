package grant

import (
	"slices"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AddressHash returns a hash of the configured hub URL and CA. It returns "" if no URL is configured: then it is
// unknown which address the agents that registered themselves use.
func AddressHash(conf config.Config) string {
	if conf.APIServerURL == "" {
		return ""
	}
	hash, err := names.StatusHash([]string{conf.APIServerURL, string(conf.APIServerCA)})
	if err != nil {
		return "" // text can always be encoded
	}
	return hash
}

// AddressUnknown reports whether an agent that registered itself uses another address or CA of the hub than is now
// configured. Once the old address is gone, the agent cannot be sent the new one. registrations are those of the
// agent's Cluster. Only the newest granted one counts, because it is in use, and only if the address was recorded
// when it was granted.
func AddressUnknown(conf config.Config, cluster *fleet.Cluster, registrations []*fleet.ClusterRegistration) bool {
	if cluster.Spec.KubeConfigSecret != "" {
		return false // the import updates the agent
	}
	granted := slices.DeleteFunc(slices.Clone(registrations), func(r *fleet.ClusterRegistration) bool {
		return !r.Status.Granted || r.DeletionTimestamp != nil || r.Status.ClusterName != cluster.Name
	})
	if len(granted) == 0 {
		return false
	}
	live := slices.MaxFunc(granted, func(a, b *fleet.ClusterRegistration) int {
		if isOlder(a, b) {
			return -1
		}
		return 1
	})
	told, now := live.Annotations[fleet.AnnotationHubAddressAtGrant], AddressHash(conf)
	return told != "" && now != "" && told != now && cluster.Annotations[fleet.AnnotationHubAddress] != now
}
