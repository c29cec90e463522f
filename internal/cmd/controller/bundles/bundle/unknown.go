package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// keepUnknown holds the BundleDeployments on clusters that are not targets but may be members of an absent
// ClusterGroup that the Bundle names. If a group was deleted or its name is misspelt, nothing is deleted because of
// that. keepUnknown returns a message if a group exists in no workspace. If a group is absent only in some workspaces,
// it returns a message only if something is held there.
func (h held) keepUnknown(in input, selection *targeting.Selection, targets []targeting.Target, groups targeting.Groups) string {
	absent := map[string][]targeting.GroupRef{}
	for _, workspace := range in.reach.Namespaces {
		absent[workspace] = selection.UnknownGroups(groupsOf(in.groups, workspace))
	}
	others := map[string]*fleet.Cluster{} // clusters that are not targets
	for _, cluster := range in.clusters {
		others[cluster.Status.Namespace] = cluster
	}
	for _, target := range targets {
		delete(others, target.Cluster.Status.Namespace)
	}
	var where []string // workspaces where something is held
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
		return "" // the groups may be in workspaces that cannot be determined
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

// groupsOf returns the groups of one workspace. A group has no members in another workspace.
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
