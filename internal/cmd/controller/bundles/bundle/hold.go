package bundle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// repair is the suffix of messages about a selector that blocks a Bundle.
const repair = "; correct that selector: until then, what depends on it stays as it is"

// held describes where a Bundle is left unchanged, because the selector of a ClusterGroup or of a mapping is invalid.
// It is then unknown whether the Bundle should be there, so nothing is created, changed or deleted.
type held struct {
	// deployments are the BundleDeployments that stay unchanged, by namespace.
	deployments map[string]ledger.Target
	// why is empty if nothing is held.
	why string
}

// hold separates the clusters that are decided from those that are held.
func hold(in input, selection *targeting.Selection, clusters []*fleet.Cluster, groups targeting.Groups) (decided []*fleet.Cluster, out held) {
	out.deployments = map[string]ledger.Target{}
	undecided := map[string]bool{}
	var reason error
	for _, cluster := range clusters {
		err := selection.Undecided(cluster, groups)
		if err == nil {
			decided = append(decided, cluster)
			continue
		}
		undecided[cluster.Status.Namespace] = true
		if reason == nil || err.Error() < reason.Error() {
			reason = err
		}
	}
	for _, bd := range in.existing {
		if bd.DeletionTimestamp == nil && (undecided[bd.Namespace] || isBeyond(in, index.ClusterOf(bd).Namespace)) {
			out.keep(in, bd)
		}
	}
	if in.reach.Unknown != nil {
		reason = in.reach.Unknown
	}
	if reason != nil {
		out.why = fmt.Sprint(targetingError, reason, repair)
	}
	return decided, out
}

// isBeyond reports whether it is unknown if the Bundle reaches the workspace.
func isBeyond(in input, workspace string) bool {
	return in.reach.Unknown != nil && !in.reach.Knows(workspace) && !in.reach.Excludes(workspace)
}

// keep adds a BundleDeployment to the held ones.
func (h held) keep(in input, bd *fleet.BundleDeployment) {
	cluster := index.ClusterOf(bd)
	h.deployments[bd.Namespace] = ledger.Target{Cluster: cluster, Namespace: bd.Namespace, Unreachable: in.unreachable[cluster]}
}

// tell adds the held deployments to the outcome.
func (h held) tell(outcome *ledger.Outcome) {
	outcome.Held = h.why
	for _, target := range h.deployments {
		outcome.Targets = append(outcome.Targets, target)
	}
	slices.SortFunc(outcome.Targets, func(a, b ledger.Target) int {
		return cmp.Or(cmp.Compare(a.Cluster.Name, b.Cluster.Name), cmp.Compare(a.Cluster.Namespace, b.Cluster.Namespace))
	})
}
