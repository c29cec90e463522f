package clustergroup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// repair is the suffix of messages about an invalid selector.
const repair = "; correct it: until then, the group's members are unknown, and what was deployed because of it stays"

// input is the input for the status of a group.
type input struct {
	// members are the Clusters in the group, in any order.
	members []*fleet.Cluster
	// broken, if set, says why the members of the group are unknown.
	broken error
	now    time.Time
}

// setStatus fills in the status of a group. If the selector is invalid, the counts keep their last known values, because
// any other number, zero included, would be wrong.
func setStatus(status *fleet.ClusterGroupStatus, in input) {
	if in.broken != nil {
		for _, conditionType := range []string{conditions.Ready, conditions.Processed} {
			conditions.Set(&status.Conditions, in.now, genericcondition.GenericCondition{
				Type: conditionType, Status: corev1.ConditionFalse,
				Reason: conditions.ReasonSelectorInvalid, Message: in.broken.Error() + repair,
			})
		}
		return
	}
	members := slices.SortedFunc(slices.Values(in.members), func(a, b *fleet.Cluster) int { return strings.Compare(a.Name, b.Name) })
	var notReady []string
	status.Summary, status.ResourceCounts = fleet.BundleSummary{}, fleet.ResourceCounts{}
	for _, member := range members {
		status.Summary = state.Add(status.Summary, member.Status.Summary)
		status.ResourceCounts = state.SumCounts(status.ResourceCounts, member.Status.ResourceCounts)
		if member.Status.Summary.Ready != member.Status.Summary.DesiredReady || silent(member) {
			notReady = append(notReady, member.Name)
		}
	}
	status.ClusterCount, status.NonReadyClusterCount = len(members), len(notReady)
	status.NonReadyClusters = notReady[:min(state.MaxListed, len(notReady))]
	status.Display = fleet.ClusterGroupDisplay{
		ReadyClusters: readyClusters(*status),
		ReadyBundles:  state.ReadyText(status.Summary),
		State:         state.WorstState(status.Summary),
	}
	conditions.Set(&status.Conditions, in.now, state.ReadyCondition(status.Summary, state.KindBundle))
	conditions.Set(&status.Conditions, in.now, genericcondition.GenericCondition{
		Type: conditions.Processed, Status: corev1.ConditionTrue,
	})
}

// silent reports whether a Cluster is not ready because its agent has stopped reporting. The agent's last report still
// counts in the sums.
func silent(cluster *fleet.Cluster) bool {
	ready := conditions.Get(cluster.Status.Conditions, conditions.Ready)
	return ready != nil && ready.Reason == conditions.ReasonAgentNotReporting
}

// readyClusters returns "<ready>/<all>", followed by the names of Clusters that are not ready as listed in the status.
func readyClusters(status fleet.ClusterGroupStatus) string {
	text := fmt.Sprintf("%d/%d", status.ClusterCount-status.NonReadyClusterCount, status.ClusterCount)
	if len(status.NonReadyClusters) > 0 {
		text += " (" + strings.Join(status.NonReadyClusters, ",") + ")"
	}
	return text
}
