package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// repair is the suffix of messages about a selector that blocks a Bundle.
const repair = "; correct that selector: until then, what depends on it stays as it is"

// blockUndecided blocks the BundleDeployments of clusters that may or may not be targets, because the selector of a
// ClusterGroup or of a mapping is invalid. It returns the other clusters.
func (s *Selection) blockUndecided(in Input, selectors *targeting.Selection, clusters []*fleet.Cluster) (decided []*fleet.Cluster) {
	undecided := map[string]bool{}
	var reason error
	for _, cluster := range clusters {
		err := selectors.Undecided(cluster, in.Groups)
		if err == nil {
			decided = append(decided, cluster)
			continue
		}
		undecided[cluster.Status.Namespace] = true
		if reason == nil || err.Error() < reason.Error() {
			reason = err
		}
	}
	for _, bd := range in.Existing {
		if bd.DeletionTimestamp == nil && (undecided[bd.Namespace] || isBeyond(in, clusterOf(bd).Namespace)) {
			s.block(bd)
		}
	}
	if in.Reach.Unknown != nil {
		reason = in.Reach.Unknown
	}
	if reason != nil {
		s.Outcome.Blocked = fmt.Sprint(TargetingError, reason, repair)
	}
	return decided
}

// isBeyond reports whether it is unknown if the Bundle reaches the workspace.
func isBeyond(in Input, workspace string) bool {
	return in.Reach.Unknown != nil && !in.Reach.Knows(workspace) && !in.Reach.Excludes(workspace)
}

func (s *Selection) block(bd *fleet.BundleDeployment) {
	cluster := clusterOf(bd)
	s.blocked[bd.Namespace] = Target{
		Cluster: cluster, Namespace: bd.Namespace, Unreachable: s.unreachable[cluster], Absent: s.absent[cluster],
	}
}

// WithBlocked adds the blocked deployments to the targets of an outcome.
func (s Selection) WithBlocked(targets []Target) []Target {
	for _, target := range s.blocked {
		targets = append(targets, target)
	}
	slices.SortFunc(targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Cluster.Name, b.Cluster.Name), cmp.Compare(a.Cluster.Namespace, b.Cluster.Namespace))
	})
	return targets
}

// blockUnknown blocks the BundleDeployments on clusters that are not targets but may be members of an absent
// ClusterGroup that the Bundle names. If a group was deleted or its name is misspelt, nothing is deleted because of
// that. blockUnknown returns a message if a group exists in no workspace. If a group is absent only in some
// workspaces, it returns a message only if something is blocked there.
func (s *Selection) blockUnknown(in Input, selectors *targeting.Selection) string {
	absent := absentGroups(in, selectors)
	others := map[string]*fleet.Cluster{} // clusters that are not targets
	for _, cluster := range in.Clusters {
		others[cluster.Status.Namespace] = cluster
	}
	for _, target := range s.Targets {
		delete(others, target.Cluster.Status.Namespace)
	}
	var where []string // workspaces where something is blocked
	for _, bd := range in.Existing {
		cluster := others[bd.Namespace]
		if cluster == nil || bd.DeletionTimestamp != nil {
			continue
		}
		if unknown := absent[cluster.Namespace]; len(unknown) > 0 && selectors.PicksIf(cluster, in.Groups, unknown) {
			s.block(bd)
			where = append(where, cluster.Namespace)
		}
	}
	if in.Reach.Unknown != nil {
		return "" // the groups may be in workspaces that cannot be determined
	}
	if nowhere := selectors.UnknownGroups(in.Groups.In(in.Reach.Namespaces...)); len(nowhere) > 0 {
		return noSuchGroups(nowhere, in.Reach.Namespaces)
	}
	if len(where) == 0 {
		return ""
	}
	first := slices.Min(where)
	return noSuchGroups(absent[first], []string{first})
}

// absentGroups returns the groups that the Bundle names and that do not exist, by workspace. A group has no members in
// another workspace.
func absentGroups(in Input, selectors *targeting.Selection) map[string][]targeting.GroupRef {
	absent := map[string][]targeting.GroupRef{}
	for _, workspace := range in.Reach.Namespaces {
		absent[workspace] = selectors.UnknownGroups(in.Groups.In(workspace))
	}
	return absent
}

// absentClusters returns a message about Clusters that targets name and that exist in no workspace of the Bundle, or "".
func absentClusters(in Input, selectors *targeting.Selection) string {
	unknown := selectors.UnknownClusters(in.Clusters)
	if len(unknown) == 0 || in.Reach.Unknown != nil {
		return "" // the Clusters may be in workspaces that cannot be determined
	}
	return fmt.Sprintf("%s: there is no such Cluster in %s; correct the name if it is wrong: otherwise the Bundle is deployed there once the Cluster exists",
		strings.Join(unknown, ", "), strings.Join(in.Reach.Namespaces, ", "))
}

func noSuchGroups(unknown []targeting.GroupRef, workspaces []string) string {
	refs := make([]string, len(unknown))
	for i, ref := range unknown {
		refs[i] = ref.String()
	}
	return fmt.Sprintf("%s: there is no such ClusterGroup in %s; create it or name another: until then, what only it selects stays as it is, "+
		"and clusters that another target selects follow that target",
		strings.Join(refs, ", "), strings.Join(workspaces, ", "))
}
