package state

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// SumCounts adds up resource counts.
func SumCounts(counts ...fleet.ResourceCounts) fleet.ResourceCounts {
	var sum fleet.ResourceCounts
	for _, c := range counts {
		sum.Ready += c.Ready
		sum.DesiredReady += c.DesiredReady
		sum.WaitApplied += c.WaitApplied
		sum.Modified += c.Modified
		sum.Orphaned += c.Orphaned
		sum.Missing += c.Missing
		sum.Unknown += c.Unknown
		sum.NotReady += c.NotReady
	}
	return sum
}
