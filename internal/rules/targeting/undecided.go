package targeting

import (
	"slices"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Undecided returns an error if it is unknown whether the Bundle goes to a cluster, or with which options, because
// that depends on a group with an invalid selector. The error wraps ErrSelector. Callers should leave such a cluster
// unchanged.
//
// It tries one broken group at a time. That is sufficient: groups are evaluated one by one, and the first target and
// the first customisation that match any of them apply. So groups that change nothing alone change nothing together. If
// very many groups are broken, it returns the error of the first one without a look at the targets.
func (s *Selection) Undecided(cluster *fleet.Cluster, groups Groups) error {
	broken := groups.broken[cluster.Namespace]
	if !s.groups || len(broken) == 0 {
		return nil
	}
	if len(broken) > mostUnknown {
		return broken[0].err
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

// MayMatch reports whether the criteria would select a cluster that was also in a group with an invalid selector. If very
// many groups are broken, it returns true for criteria that use groups.
func (g Groups) MayMatch(m Matcher, cluster *fleet.Cluster) bool {
	broken := g.broken[cluster.Namespace]
	return m.UsesGroups() && (len(broken) > mostUnknown ||
		slices.ContainsFunc(broken, func(candidate undecidedGroup) bool { return m.matchIn(cluster, candidate.group) }))
}
