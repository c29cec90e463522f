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

// Tally is the sum of the Standings of some steps.
type Tally struct{ Unavailable, Behind, Unreachable int }

// Add adds a step times times; -1 subtracts it.
func (t *Tally) Add(s Standing, times int) {
	if s.Unavailable {
		t.Unavailable += times
	}
	if s.Behind {
		t.Behind += times
	}
	if s.Unreachable {
		t.Unreachable += times
	}
}

// ProgressOf returns the progress of the steps.
func ProgressOf(layout Layout, steps []Step) Progress {
	var all Tally
	partitions := make([]Tally, len(layout.Partitions))
	for _, step := range steps {
		standing := step.Standing()
		all.Add(standing, 1)
		for _, p := range step.Partitions {
			partitions[p].Add(standing, 1)
		}
	}
	return ProgressOfTallies(layout, all, partitions)
}

// ProgressOfTallies is ProgressOf for a caller that knows the sums of all steps and of each partition. In partitions
// that the rollout has reached, targets that are behind count as unavailable.
func ProgressOfTallies(layout Layout, all Tally, partitions []Tally) Progress {
	out := Progress{
		Unavailable: all.Unavailable, Unreachable: all.Unreachable,
		MaxUnavailable: layout.MaxUnavailable, MaxUnavailablePartitions: layout.MaxUnavailablePartitions,
	}
	for p, part := range layout.Partitions {
		status := fleet.PartitionStatus{Name: part.Name, Count: part.Count, MaxUnavailable: part.MaxUnavailable, Unavailable: partitions[p].Unavailable}
		if out.UnavailablePartitions <= layout.MaxUnavailablePartitions {
			status.Unavailable = partitions[p].Behind
			if status.Unavailable > part.MaxUnavailable {
				out.UnavailablePartitions++
			}
		}
		out.Partitions = append(out.Partitions, status)
	}
	return out
}
