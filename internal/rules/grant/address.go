package grant

import (
	"slices"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AddressHash stands for the hub's URL and CA as configured; "" if no URL is, for then nobody knows what agents that
// come by themselves were told.
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

// AddressUnknown says whether an agent that came by itself was told another address or CA of the hub than is
// configured by now: once the old one is gone nothing can be told it any more. The registrations are those of its
// Cluster; the newest that was granted is the one in use, and only one that says with what it was granted tells.
func AddressUnknown(conf config.Config, cluster *fleet.Cluster, registrations []*fleet.ClusterRegistration) bool {
	if cluster.Spec.KubeConfigSecret != "" {
		return false // the import tells it
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
