package targeting

import (
	"fmt"
	"slices"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// GroupRef is a ClusterGroup that a Bundle names.
type GroupRef struct {
	// Where is the part of the Bundle that names it, such as "spec.targets[0] (prod)".
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

// UnknownClusters returns where targets name a Cluster, by its name or its display name, that is not among the given
// clusters. A target that excludes a Cluster may name any, and the hub writes the target of an agent.
func (s *Selection) UnknownClusters(clusters []*fleet.Cluster) (unknown []string) {
	var known map[string]bool // made only if a target names a Cluster: there may be many
	for i, candidate := range s.targets {
		name := candidate.matcher.name
		if name == "" || candidate.target.DoNotDeploy || s.ofAgent {
			continue
		}
		if known == nil {
			known = map[string]bool{}
			for _, cluster := range clusters {
				known[cluster.Name], known[cluster.Labels[fleet.LabelClusterDisplayName]] = true, true
			}
		}
		if !known[name] {
			where := label("spec.targets", len(s.customisations)+i, candidate.target.Name)
			unknown = append(unknown, fmt.Sprintf("%s: clusterName %s", where, name))
		}
	}
	return unknown
}

// NamesCluster reports whether a target names the cluster, even if its other criteria do not match.
func (s *Selection) NamesCluster(cluster *fleet.Cluster) bool {
	return slices.ContainsFunc(s.targets, func(c choice) bool { return Matcher{name: c.matcher.name}.matchIn(cluster, nil) })
}

// mostUnknown limits the number of groups for which PicksIf and Undecided evaluate the targets.
const mostUnknown = 50

// PicksIf reports whether the Bundle would go to a cluster that was also in one of the groups of these names, with any
// labels. Callers should keep deployments that exist because of a deleted group, because no user asked to remove them.
// If the Bundle names very many groups that do not exist, it returns true without a look at the targets.
//
// It tries each group alone, because another one may exclude the cluster, and all together, because a target and a customisation
// may name different ones.
func (s *Selection) PicksIf(cluster *fleet.Cluster, groups Groups, unknown []GroupRef) bool {
	names := map[string]bool{} // several targets may name the same group
	for _, ref := range unknown {
		names[ref.Name] = true
	}
	if len(names) > mostUnknown {
		return true
	}
	in := groups.Of(cluster)
	all := slices.Clone(in)
	for name := range names {
		group := &fleet.ClusterGroup{}
		group.Name, group.Namespace, group.UID = name, cluster.Namespace, unknownGroup
		if _, picked := s.choose(cluster, append(slices.Clone(in), group)); picked {
			return true
		}
		all = append(all, group)
	}
	if len(names) < 2 {
		return false
	}
	_, picked := s.choose(cluster, all)
	return picked
}

// unknownGroup is the UID of a group that does not exist. Any group selector may match its labels.
const unknownGroup = "unknown"
