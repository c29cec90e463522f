package targeting

import (
	"slices"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DownstreamResources returns the Secrets and ConfigMaps that the Bundle copies for a cluster: its own, and those of
// the targets that apply to the cluster. It returns nil if the Bundle does not go to the cluster, or if an invalid
// selector leaves that open.
func (s *Selection) DownstreamResources(cluster *fleet.Cluster, groups Groups) []fleet.DownstreamResource {
	picked, ok := s.choose(cluster, s.groupsOf(cluster, groups))
	if !ok || s.Undecided(cluster, groups) != nil {
		return nil
	}
	out := slices.Clone(s.bundle.Spec.DownstreamResources)
	var known places
	for _, overlay := range picked.overlays {
		out = union(out, overlay.DownstreamResources, downstreamKey, &known)
	}
	return out
}
