package targeting

import (
	"fmt"
	"slices"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// GroupRef is a ClusterGroup that a Bundle names.
type GroupRef struct {
	// Where says what of the Bundle names it, such as "target 0 (prod)".
	Where string
	// Name is the group's.
	Name string
}

// String says where it is named.
func (r GroupRef) String() string { return fmt.Sprintf("%s: clusterGroup %s", r.Where, r.Name) }

// UnknownGroups are the ClusterGroups that the Bundle names and that are not among these, in the order in which they
// are named. Nothing is in such a group, by mistake or because it was deleted.
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

// PicksIf says whether the Bundle would go to a cluster if that were in groups of these names, too, whatever their
// labels. What was deployed there because of a group that is gone is best left alone: nobody said that it should go.
func (s *Selection) PicksIf(cluster *fleet.Cluster, groups Groups, unknown []GroupRef) bool {
	in := slices.Clone(groups.Of(cluster))
	for _, ref := range unknown {
		group := &fleet.ClusterGroup{}
		group.Name, group.Namespace, group.UID = ref.Name, cluster.Namespace, unknownGroup
		in = append(in, group)
	}
	_, picked := s.choose(cluster, in)
	return picked
}

// unknownGroup is the UID of a group that is not there: its labels could be any.
const unknownGroup = "unknown"
