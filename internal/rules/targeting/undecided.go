package targeting

import (
	"slices"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Undecided is why nobody can say whether the Bundle goes to a cluster, or with which
// options: it depends on a group whose selector does not parse. It wraps ErrSelector;
// nil if nothing depends on such a group. A cluster that is undecided is best left
// alone.
//
// One broken group at a time is tried: a cluster's groups are asked one by one, and
// the first target and the first customisation that hold for any of them count, so
// that groups which change neither alone do not so together.
func (s *Selection) Undecided(cluster *fleet.Cluster, groups Groups) error {
	broken := groups.broken[cluster.Namespace]
	if !s.groups || len(broken) == 0 {
		return nil
	}
	in := groups.Of(cluster)
	target, customising := s.applying(cluster, in)
	for _, candidate := range broken {
		targetInside, customisingInside := s.applying(cluster, append(slices.Clone(in), candidate.group))
		if target != targetInside || !slices.Equal(customising, customisingInside) {
			return candidate.err
		}
	}
	return nil
}
