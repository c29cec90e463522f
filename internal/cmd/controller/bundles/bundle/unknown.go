package bundle

import (
	"fmt"
	"strings"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// keepUnknown adds to what is held what was deployed to clusters that are no targets, but could be members of a
// ClusterGroup that the Bundle names and that is not there: a group that was deleted, or a name that was misspelt, says
// nothing about what is to go. It returns what to tell; empty if all groups are there.
func (h held) keepUnknown(in input, selection *targeting.Selection, targets []targeting.Target, groups targeting.Groups) string {
	unknown := selection.UnknownGroups(in.groups)
	if len(unknown) == 0 || in.reach.Unknown != nil {
		return "" // or the groups may be where nobody can look
	}
	wanted, clusters := map[string]bool{}, map[string]*fleet.Cluster{}
	for _, target := range targets {
		wanted[target.Cluster.Status.Namespace] = true
	}
	for _, cluster := range in.clusters {
		clusters[cluster.Status.Namespace] = cluster
	}
	for _, bd := range in.existing {
		cluster := clusters[bd.Namespace]
		if cluster != nil && !wanted[bd.Namespace] && bd.DeletionTimestamp == nil && selection.PicksIf(cluster, groups, unknown) {
			h.deployments[bd.Namespace] = ledger.Target{Cluster: index.ClusterOf(bd), Namespace: bd.Namespace}
		}
	}
	refs := make([]string, len(unknown))
	for i, ref := range unknown {
		refs[i] = ref.String()
	}
	return fmt.Sprintf("%s: there is no such ClusterGroup in %s; create it or name another: until then, what was deployed to its members stays as it is",
		strings.Join(refs, ", "), strings.Join(in.reach.Namespaces, ", "))
}
