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
)

// repair is what to do about a selector that does not parse.
const repair = "; correct it: until then, nobody knows the group's members, and what was deployed because of it stays"

// input is what the status of a group is made of.
type input struct {
	// members are the Clusters in the group, in any order.
	members []*fleet.Cluster
	// broken, if set, says why nobody can tell who is in the group.
	broken error
	now    time.Time
}

// tell fills in the status of a group. Of a group whose selector does not parse, the counts stay
// what they were when it was last known who is in it: no number would be right, and zero least of all.
func tell(status *fleet.ClusterGroupStatus, in input) {
	if in.broken != nil {
		for _, conditionType := range []string{fleet.ConditionReady, fleet.ConditionProcessed} {
			fleet.SetCondition(&status.Conditions, in.now, genericcondition.GenericCondition{
				Type: conditionType, Status: corev1.ConditionFalse,
				Reason: fleet.ReasonSelectorInvalid, Message: in.broken.Error() + repair,
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
	fleet.SetCondition(&status.Conditions, in.now, state.ReadyCondition(status.Summary, state.KindBundle))
	fleet.SetCondition(&status.Conditions, in.now, genericcondition.GenericCondition{
		Type: fleet.ConditionProcessed, Status: corev1.ConditionTrue,
	})
}

// silent says whether a Cluster is not ready because its agent is not heard of any more. What that has reported last still
// counts in the sums.
func silent(cluster *fleet.Cluster) bool {
	ready := fleet.GetCondition(cluster.Status.Conditions, fleet.ConditionReady)
	return ready != nil && ready.Reason == fleet.ReasonAgentNotReporting
}

// readyClusters is "<ready>/<all>", with the names that the status lists of those that are not ready.
func readyClusters(status fleet.ClusterGroupStatus) string {
	text := fmt.Sprintf("%d/%d", status.ClusterCount-status.NonReadyClusterCount, status.ClusterCount)
	if len(status.NonReadyClusters) > 0 {
		text += " (" + strings.Join(status.NonReadyClusters, ",") + ")"
	}
	return text
}
