package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// keepUnknown adds to what is held what was deployed to clusters that are no targets, but could be members of a
// ClusterGroup that the Bundle names and that is not in their workspace: a group that was deleted, or a name that was
// misspelt, says nothing about what is to go. It returns what to tell: of a group that is in no workspace always, of one
// that is in some of them where something is held because of it.
func (h held) keepUnknown(in input, selection *targeting.Selection, targets []targeting.Target, groups targeting.Groups) string {
	absent := map[string][]targeting.GroupRef{}
	for _, workspace := range in.reach.Namespaces {
		absent[workspace] = selection.UnknownGroups(groupsOf(in.groups, workspace))
	}
	others := map[string]*fleet.Cluster{} // that are no targets
	for _, cluster := range in.clusters {
		others[cluster.Status.Namespace] = cluster
	}
	for _, target := range targets {
		delete(others, target.Cluster.Status.Namespace)
	}
	var where []string // something was deployed because of what is absent
	for _, bd := range in.existing {
		cluster := others[bd.Namespace]
		if cluster == nil || bd.DeletionTimestamp != nil {
			continue
		}
		if unknown := absent[cluster.Namespace]; len(unknown) > 0 && selection.PicksIf(cluster, groups, unknown) {
			h.keep(in, bd)
			where = append(where, cluster.Namespace)
		}
	}
	if in.reach.Unknown != nil {
		return "" // the groups may be where nobody can look
	}
	if nowhere := selection.UnknownGroups(in.groups); len(nowhere) > 0 {
		return noSuchGroups(nowhere, in.reach.Namespaces)
	}
	if len(where) == 0 {
		return ""
	}
	first := slices.Min(where)
	return noSuchGroups(absent[first], []string{first})
}

// groupsOf are those of one workspace: a group has no members in another.
func groupsOf(groups []*fleet.ClusterGroup, workspace string) (out []*fleet.ClusterGroup) {
	for _, group := range groups {
		if group.Namespace == workspace {
			out = append(out, group)
		}
	}
	return out
}

func noSuchGroups(unknown []targeting.GroupRef, workspaces []string) string {
	refs := make([]string, len(unknown))
	for i, ref := range unknown {
		refs[i] = ref.String()
	}
	return fmt.Sprintf("%s: there is no such ClusterGroup in %s; create it or name another: until then, what was deployed to its members stays as it is",
		strings.Join(refs, ", "), strings.Join(workspaces, ", "))
}
