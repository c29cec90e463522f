package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// observed is a stage that is over.
type observed struct {
	Stage string
	Took  time.Duration
}

func TestStages(t *testing.T) {
	type step struct {
		after   time.Duration
		thing   string
		enter   string // or, if empty,
		arrive  bool   // or dropped
		elapsed time.Duration
	}
	tests := map[string]struct {
		steps []step
		want  []observed
	}{
		"a stage ends when the next begins, the last one when the thing arrives": {
			steps: []step{
				{enter: "cluster"}, {after: time.Second, enter: "rights", elapsed: time.Second},
				{after: 2 * time.Second, arrive: true, elapsed: 3 * time.Second},
			},
			want: []observed{{"cluster", time.Second}, {"rights", 2 * time.Second}},
		},
		"a repeated stage changes nothing": {
			steps: []step{
				{enter: "cluster"}, {after: time.Second, enter: "cluster", elapsed: time.Second}, {after: time.Second, enter: "cluster", elapsed: 2 * time.Second},
				{arrive: true, elapsed: 2 * time.Second},
			},
			want: []observed{{"cluster", 2 * time.Second}},
		},
		"a stage that is entered again counts twice": {
			steps: []step{
				{enter: "rights"}, {after: time.Second, enter: "credential", elapsed: time.Second}, {after: time.Second, enter: "rights", elapsed: 2 * time.Second},
				{after: time.Second, arrive: true, elapsed: 3 * time.Second},
			},
			want: []observed{{"rights", time.Second}, {"credential", time.Second}, {"rights", time.Second}},
		},
		"things are independent": {
			steps: []step{
				{thing: "a", enter: "cluster"}, {after: time.Second, thing: "b", enter: "cluster"},
				{after: time.Second, thing: "a", arrive: true, elapsed: 2 * time.Second}, {after: time.Second, thing: "b", arrive: true, elapsed: 2 * time.Second},
			},
			want: []observed{{"cluster", 2 * time.Second}, {"cluster", 2 * time.Second}},
		},
		"a dropped thing does not arrive, and starts again": {
			steps: []step{
				{enter: "cluster"}, {after: time.Second}, {arrive: true}, {after: time.Second, enter: "cluster"},
				{after: time.Second, arrive: true, elapsed: time.Second},
			},
			want: []observed{{"cluster", time.Second}},
		},
		"a thing that did not start does not arrive": {steps: []step{{arrive: true}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := noon
			var got []observed
			s := NewStages(func() time.Time { return now }, func(stage string, took time.Duration) { got = append(got, observed{stage, took}) })
			for i, step := range test.steps {
				now = now.Add(step.after)
				var elapsed time.Duration
				switch {
				case step.enter != "":
					elapsed = s.Enter(step.thing, step.enter)
				case step.arrive:
					elapsed, _ = s.Arrive(step.thing)
				default:
					s.Drop(step.thing)
				}
				if elapsed != step.elapsed {
					t.Errorf("step %d: on its way for %s, want %s", i, elapsed, step.elapsed)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("stages that are over (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStages_ForgetFinishedObjects(t *testing.T) {
	s := NewStages(func() time.Time { return noon }, func(string, time.Duration) {})
	s.Enter("a", "x")
	s.Enter("b", "x")
	s.Enter("c", "x")
	s.Arrive("a")
	s.Drop("b")
	if diff := cmp.Diff([]string{"c"}, keys(s.way)); diff != "" {
		t.Errorf("still remembered (-want +got):\n%s", diff)
	}
}

func keys[V any](m map[string]V) (found []string) {
	for key := range m {
		found = append(found, key)
	}
	return found
}
