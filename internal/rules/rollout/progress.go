package rollout

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Progress is the progress of a rollout, for the status of a Bundle.
type Progress struct {
	Unavailable              int
	Unreachable              int
	MaxUnavailable           int
	UnavailablePartitions    int
	MaxUnavailablePartitions int
	// Partitions are without their summaries.
	Partitions []fleet.PartitionStatus
}

// totals is the sum of the Availability of some steps.
type totals struct{ unavailable, behind, unreachable int }

func (t *totals) add(s Availability) {
	if s.Unavailable {
		t.unavailable++
	}
	if s.Behind {
		t.behind++
	}
	if s.Unreachable {
		t.unreachable++
	}
}

// ProgressOf returns the progress of the steps. In partitions that the rollout has reached, targets that are behind count
// as unavailable.
func ProgressOf(layout Layout, steps []Step) Progress {
	var all totals
	partitions := make([]totals, len(layout.Partitions))
	for _, step := range steps {
		availability := step.Availability()
		all.add(availability)
		for _, p := range step.Partitions {
			partitions[p].add(availability)
		}
	}
	out := Progress{
		Unavailable: all.unavailable, Unreachable: all.unreachable,
		MaxUnavailable: layout.MaxUnavailable, MaxUnavailablePartitions: layout.MaxUnavailablePartitions,
	}
	for p, part := range layout.Partitions {
		status := fleet.PartitionStatus{Name: part.Name, Count: part.Count, MaxUnavailable: part.MaxUnavailable, Unavailable: partitions[p].unavailable}
		if out.UnavailablePartitions <= layout.MaxUnavailablePartitions {
			status.Unavailable = partitions[p].behind
			if status.Unavailable > part.MaxUnavailable {
				out.UnavailablePartitions++
			}
		}
		out.Partitions = append(out.Partitions, status)
	}
	return out
}
