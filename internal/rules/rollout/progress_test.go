package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestAvailability(t *testing.T) {
	tests := map[string]struct {
		in   Step
		want Availability
	}{
		"ready and up to date":                 {step(deployed("2", "2", "2")), Availability{}},
		"not ready":                            {step(unready(deployed("2", "2", "2"))), Availability{Unavailable: true, Behind: true}},
		"not applied":                          {step(deployed("2", "2", "1")), Availability{Unavailable: true, Behind: true}},
		"available, but not the newest":        {step(deployed("2", "1", "1")), Availability{Behind: true}},
		"not even staged":                      {step(old()), Availability{Behind: true}},
		"does not exist yet":                   {step(nil), Availability{Behind: true}},
		"perhaps promoted":                     {step(old(), uncertain), Availability{Unavailable: true, Behind: true}},
		"being deleted":                        {step(going(deployed("2", "2", "2"))), Availability{Unavailable: true, Behind: true}},
		"unreachable, with an old state":       {step(unready(old()), unreachable), Availability{Unreachable: true}},
		"unreachable, without a deployment":    {step(nil, unreachable), Availability{Unreachable: true}},
		"newest state unknown":                 {step(old(), blocked), Availability{}},
		"newest state unknown, not ready":      {step(unready(old()), blocked), Availability{Unavailable: true, Behind: true}},
		"newest state unknown, does not exist": {step(nil, blocked), Availability{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.in.Availability(); got != test.want {
				t.Errorf("availability = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestProgressOf(t *testing.T) {
	threeParts := late(1, layout(5, 0, 0, 1))
	for i, name := range []string{"a", "b", "c"} {
		threeParts.Partitions[i].Name, threeParts.Partitions[i].Count = name, i+1
	}
	tests := map[string]struct {
		layout Layout
		in     []Step
		want   Progress
	}{
		"no targets": {Undivided(0), nil, Progress{MaxUnavailable: 1, Partitions: []fleet.PartitionStatus{{Name: "All", MaxUnavailable: 1}}}},
		"each counts": {
			Undivided(3), []Step{step(nil), step(deployed("2", "2", "2")), step(unready(old()))},
			Progress{Unavailable: 1, MaxUnavailable: 3, Partitions: []fleet.PartitionStatus{{Name: "All", Count: 3, MaxUnavailable: 3, Unavailable: 2}}},
		},
		"unreachable clusters are counted separately": {
			Undivided(2), []Step{step(unready(old()), unreachable), step(nil, unreachable)},
			Progress{Unreachable: 2, MaxUnavailable: 2, Partitions: []fleet.PartitionStatus{{Name: "All", Count: 2, MaxUnavailable: 2}}},
		},
		"in partitions not reached yet, only unavailable clusters count": {
			threeParts, []Step{step(old()), step(old(), within(1)), step(old(), within(1)), step(old(), within(2)), step(unready(old()), within(2)), step(nil, within(2))},
			Progress{
				Unavailable: 1, MaxUnavailable: 5, UnavailablePartitions: 2, MaxUnavailablePartitions: 1,
				Partitions: []fleet.PartitionStatus{{Name: "a", Count: 1, Unavailable: 1}, {Name: "b", Count: 2, Unavailable: 2}, {Name: "c", Count: 3, MaxUnavailable: 1, Unavailable: 1}},
			},
		},
		"a cluster in two partitions counts in both, and once in total": {
			late(2, layout(2, 1, 1)), []Step{step(unready(old()), within(0, 1))},
			Progress{Unavailable: 1, MaxUnavailable: 2, MaxUnavailablePartitions: 2, Partitions: []fleet.PartitionStatus{{MaxUnavailable: 1, Unavailable: 1}, {MaxUnavailable: 1, Unavailable: 1}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ProgressOf(test.layout, test.in)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}
