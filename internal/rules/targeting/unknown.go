package targeting

import (
	"fmt"
	"slices"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// GroupRef is a ClusterGroup that a Bundle names.
type GroupRef struct {
	// Where is the part of the Bundle that names it, such as "target 0 (prod)".
	Where string
	// Name is the name of the group.
	Name string
}

// String returns where the group is named, and its name.
func (r GroupRef) String() string { return fmt.Sprintf("%s: clusterGroup %s", r.Where, r.Name) }

// UnknownGroups returns the ClusterGroups that the Bundle names and that are not among the given groups, in the order
// in which they are named. Such a group was deleted, or its name is wrong; it has no members.
func (s *Selection) UnknownGroups(groups []*fleet.ClusterGroup) (unknown []GroupRef) {
	known := map[string]bool{}
	for _, group := range groups {
		known[group.Name] = true
	}
	for _, ref := range s.named {
		if !known[ref.Name] {
			unknown = append(unknown, ref)
		}
	}
	return unknown
}

// mostUnknown limits the number of groups for which PicksIf evaluates the targets.
const mostUnknown = 50

// PicksIf reports whether the Bundle would go to a cluster that was also in groups of these names, with any labels.
// Callers should keep deployments that exist because of a deleted group, because no user asked to remove them. If the
// Bundle names very many groups that do not exist, it returns true without a look at the targets.
func (s *Selection) PicksIf(cluster *fleet.Cluster, groups Groups, unknown []GroupRef) bool {
	in := slices.Clone(groups.Of(cluster))
	added := map[string]bool{}
	for _, ref := range unknown {
		if added[ref.Name] {
			continue // several targets may name the same group
		}
		if len(added) == mostUnknown {
			return true
		}
		added[ref.Name] = true
		group := &fleet.ClusterGroup{}
		group.Name, group.Namespace, group.UID = ref.Name, cluster.Namespace, unknownGroup
		in = append(in, group)
	}
	_, picked := s.choose(cluster, in)
	return picked
}

// unknownGroup is the UID of a group that does not exist. Any group selector may match its labels.
const unknownGroup = "unknown"
