package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func numbered(count int) (out []*fleet.Cluster) {
	for i := range count {
		out = append(out, targetingtest.Cluster(fmt.Sprintf("c%03d", i)))
	}
	return out
}

func strategy(s fleet.RolloutStrategy) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Spec.RolloutStrategy = &s }
}

func remaining(b *fleet.Bundle) {
	b.Annotations = map[string]string{"fleet.cattle.io/rollout-remaining-clusters": "true"}
}

// asText returns one line for each partition: name, targets, limit.
func (l Layout) asText() (out []string) {
	for p, part := range l.Partitions {
		var members []string
		for i, in := range l.Of {
			if slices.Contains(in, p) {
				members = append(members, fmt.Sprint(i))
			}
		}
		if len(members) > 3 {
			members = []string{members[0], "…", members[len(members)-1]}
		}
		out = append(out, fmt.Sprintf("%s: %d (%s), at most %d", part.Name, part.Count, strings.Join(members, " "), part.MaxUnavailable))
	}
	return out
}

func pointer[T any](value T) *T { return &value }

func TestAutomaticPartitions(t *testing.T) {
	type limits struct{ unavailable, partitions, new int }
	tests := map[string]struct {
		count    int
		strategy *fleet.RolloutStrategy
		want     []string
		limits   limits
	}{
		"no strategy and no clusters":      {0, nil, []string{"All: 0 (), at most 1"}, limits{1, 0, 50}},
		"below the threshold: not divided": {199, nil, []string{"All: 199 (0 … 198), at most 199"}, limits{199, 0, 50}},
		"200 clusters: four partitions": {200, nil, []string{
			"Partition 0 - 50: 50 (0 … 49), at most 50", "Partition 50 - 100: 50 (50 … 99), at most 50",
			"Partition 100 - 150: 50 (100 … 149), at most 50", "Partition 150 - 200: 50 (150 … 199), at most 50",
		}, limits{200, 0, 50}},
		"remainder: one more partition": {230, &fleet.RolloutStrategy{MaxUnavailable: text("10%")}, []string{
			"Partition 0 - 57: 57 (0 … 56), at most 5", "Partition 57 - 114: 57 (57 … 113), at most 5",
			"Partition 114 - 171: 57 (114 … 170), at most 5", "Partition 171 - 228: 57 (171 … 227), at most 5",
			"Partition 228 - 230: 2 (228 229), at most 1",
		}, limits{23, 0, 50}},
		"threshold of zero: not divided": {300, &fleet.RolloutStrategy{AutoPartitionThreshold: pointer(0)},
			[]string{"All: 300 (0 … 299), at most 300"}, limits{300, 0, 50}},
		"size of zero: not divided": {300, &fleet.RolloutStrategy{AutoPartitionSize: number(0)},
			[]string{"All: 300 (0 … 299), at most 300"}, limits{300, 0, 50}},
		"custom threshold and size": {3, &fleet.RolloutStrategy{AutoPartitionThreshold: pointer(3), AutoPartitionSize: number(2)},
			[]string{"Partition 0 - 2: 2 (0 1), at most 2", "Partition 2 - 3: 1 (2), at most 1"}, limits{3, 0, 50}},
		"custom limits": {10, &fleet.RolloutStrategy{MaxUnavailable: number(0), MaxUnavailablePartitions: number(1), MaxNew: pointer(0)},
			[]string{"All: 10 (0 … 9), at most 0"}, limits{0, 1, 0}},
		"partitions in percent": {4, &fleet.RolloutStrategy{AutoPartitionThreshold: pointer(1), AutoPartitionSize: number(1), MaxUnavailablePartitions: text("50%"), MaxNew: pointer(7)},
			[]string{"Partition 0 - 1: 1 (0), at most 1", "Partition 1 - 2: 1 (1), at most 1", "Partition 2 - 3: 1 (2), at most 1", "Partition 3 - 4: 1 (3), at most 1"}, limits{4, 2, 7}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := NewLayout(targetingtest.Bundle(func(b *fleet.Bundle) { b.Spec.RolloutStrategy = test.strategy }), numbered(test.count), targeting.Groups{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.asText()); diff != "" {
				t.Errorf("partitions (-want +got):\n%s", diff)
			}
			if limits := (limits{got.MaxUnavailable, got.MaxUnavailablePartitions, got.MaxNew}); limits != test.limits {
				t.Errorf("limits = %+v, want %+v", limits, test.limits)
			}
			if len(got.Of) != test.count || got.Problem != "" {
				t.Errorf("%d targets, problem %q", len(got.Of), got.Problem)
			}
		})
	}
}

func TestManualPartitions(t *testing.T) {
	clusters := []*fleet.Cluster{targetingtest.Cluster("a", targetingtest.Labelled("env", "dev")), targetingtest.Cluster("b", targetingtest.Labelled("env", "prod")), targetingtest.Cluster("c", targetingtest.Labelled("env", "prod", "canary", "yes"))}
	groups := []*fleet.ClusterGroup{targetingtest.Group("prod", "env", "prod", targetingtest.GroupLabelled("tier", "high"))}
	canary, byGroup := fleet.Partition{Name: "canary", ClusterSelector: targetingtest.Selector("canary", "yes")}, fleet.Partition{Name: "prod", ClusterGroup: "prod", MaxUnavailable: number(1)}
	tests := map[string]struct {
		partitions []fleet.Partition
		modifiers  []func(*fleet.Bundle)
		want       []string
		problem    string
	}{
		"cluster without a partition: reported": {[]fleet.Partition{canary, byGroup}, nil,
			[]string{"canary: 1 (2), at most 1", "prod: 2 (1 2), at most 1"},
			"spec.rolloutStrategy.partitions: none of them selects cluster a in namespace ws, and possibly others: nothing new is deployed there"},
		"remaining clusters requested: in the last partition": {[]fleet.Partition{canary, byGroup}, []func(*fleet.Bundle){remaining},
			[]string{"canary: 1 (2), at most 1", "prod: 2 (1 2), at most 1", "Remaining: 1 (0), at most 1"}, ""},
		"no remaining clusters: empty last partition": {[]fleet.Partition{{Name: "all", ClusterSelector: targetingtest.Selector()}}, []func(*fleet.Bundle){remaining},
			[]string{"all: 3 (0 1 2), at most 3", "Remaining: 0 (), at most 1"}, ""},
		"groups by label": {[]fleet.Partition{{Name: "high", ClusterGroupSelector: targetingtest.Selector("tier", "high")}, {Name: "a", ClusterName: "a"}}, nil,
			[]string{"high: 2 (1 2), at most 2", "a: 1 (0), at most 1"}, ""},
		"partition without criteria: selects no cluster": {[]fleet.Partition{{Name: "none"}}, nil,
			[]string{"none: 0 (), at most 1"},
			"spec.rolloutStrategy.partitions: none of them selects any target cluster of the Bundle, so nothing new is deployed"},
		"group does not exist: reported": {[]fleet.Partition{{Name: "all", ClusterSelector: targetingtest.Selector()}, {ClusterGroup: "prd"}}, nil,
			[]string{"all: 3 (0 1 2), at most 3", ": 0 (), at most 1"},
			"spec.rolloutStrategy.partitions[1].clusterGroup: there is no ClusterGroup prd"},
		"group does not exist: its clusters are among the remaining ones": {[]fleet.Partition{canary, {ClusterGroup: "prd"}}, []func(*fleet.Bundle){remaining},
			[]string{"canary: 1 (2), at most 1", ": 0 (), at most 1", "Remaining: 2 (0 1), at most 2"},
			"spec.rolloutStrategy.partitions[1].clusterGroup: there is no ClusterGroup prd"},
		"group does not parse: clusters that may be in it are not among the remaining ones": {
			[]fleet.Partition{canary, {ClusterGroup: "broken", ClusterSelector: targetingtest.Selector("env", "prod")}}, []func(*fleet.Bundle){remaining},
			[]string{"canary: 1 (2), at most 1", ": 0 (), at most 1", "Remaining: 1 (0), at most 1"},
			"spec.rolloutStrategy.partitions[1].clusterGroup: the selector of ClusterGroup broken does not parse, so it has no clusters"},
		"group does not parse: reported": {[]fleet.Partition{{Name: "all", ClusterSelector: targetingtest.Selector()}, {ClusterGroup: "broken"}}, nil,
			[]string{"all: 3 (0 1 2), at most 3", ": 0 (), at most 1"},
			"spec.rolloutStrategy.partitions[1].clusterGroup: the selector of ClusterGroup broken does not parse, so it has no clusters"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			broken := targetingtest.Group("broken", "a", "b")
			broken.Spec.Selector = targetingtest.Unparsable()
			b := targetingtest.Bundle(append(test.modifiers, strategy(fleet.RolloutStrategy{Partitions: test.partitions}))...)
			got, err := NewLayout(b, clusters, targeting.NewGroups(append(slices.Clone(groups), broken)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.asText()); diff != "" {
				t.Errorf("partitions (-want +got):\n%s", diff)
			}
			if got.Problem != test.problem {
				t.Errorf("problem = %q, want %q", got.Problem, test.problem)
			}
		})
	}
}

// The limit of a partition is its own or the rollout's, relative to its number of targets.
func TestPartitionLimits(t *testing.T) {
	for want, own := range map[int]*intstr.IntOrString{1: nil, 3: number(3), 5: text("50%"), 0: number(0)} {
		b := targetingtest.Bundle(strategy(fleet.RolloutStrategy{MaxUnavailable: text("10%"), Partitions: []fleet.Partition{{ClusterSelector: targetingtest.Selector(), MaxUnavailable: own}}}))
		got, err := NewLayout(b, numbered(10), targeting.Groups{})
		if err != nil || got.Partitions[0].MaxUnavailable != want {
			t.Errorf("limit %v of 10 = %d, %v; want %d", own, got.Partitions[0].MaxUnavailable, err, want)
		}
	}
}

func TestInvalidStrategies_ReturnAnError(t *testing.T) {
	all := fleet.Partition{ClusterSelector: targetingtest.Selector()}
	tests := map[string]struct {
		in   fleet.RolloutStrategy
		want error
		text string
	}{
		"a limit": {fleet.RolloutStrategy{MaxUnavailable: text("ten")}, ErrStrategy,
			`spec.rolloutStrategy.maxUnavailable: invalid rollout strategy: "ten" is neither a number nor a percentage such as "10%"`},
		"a limit of partitions": {fleet.RolloutStrategy{MaxUnavailablePartitions: text("10 %")}, ErrStrategy,
			`spec.rolloutStrategy.maxUnavailablePartitions: invalid rollout strategy: "10 %" is neither a number nor a percentage such as "10%"`},
		"a size": {fleet.RolloutStrategy{AutoPartitionSize: text("a quarter")}, ErrStrategy,
			`spec.rolloutStrategy.autoPartitionSize: invalid rollout strategy: "a quarter" is neither a number nor a percentage such as "10%"`},
		"the limit of a partition": {fleet.RolloutStrategy{Partitions: []fleet.Partition{all, {ClusterSelector: targetingtest.Selector(), MaxUnavailable: text("x%")}}}, ErrStrategy,
			`spec.rolloutStrategy.partitions[1].maxUnavailable: invalid rollout strategy: "x%" is neither a number nor a percentage such as "10%"`},
		"a selector": {fleet.RolloutStrategy{Partitions: []fleet.Partition{{ClusterSelector: targetingtest.Unparsable()}}}, targeting.ErrSelector,
			`spec.rolloutStrategy.partitions[0].clusterSelector: invalid label selector: "Resembles" is not a valid label selector operator`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewLayout(targetingtest.Bundle(strategy(test.in)), numbered(2), targeting.Groups{})
			if !errors.Is(err, test.want) || err.Error() != test.text {
				t.Errorf("error = %v, want %s", err, test.text)
			}
		})
	}
}

// A tenant may have any number of Clusters, and a Bundle room for tens of thousands of partitions.
func TestPartitionsThatTakeTooMuchMemory_AreRefused(t *testing.T) {
	all := func(count int) []fleet.Partition {
		return slices.Repeat([]fleet.Partition{{ClusterSelector: targetingtest.Selector()}}, count)
	}
	for name, test := range map[string]struct {
		partitions []fleet.Partition
		clusters   int
		want       string
	}{
		"as many partitions as allowed": {all(maxPartitions), 1, ""},
		"too many partitions":           {all(maxPartitions + 1), 1, "spec.rolloutStrategy.partitions: invalid rollout strategy: there are 1001 partitions, and at most 1000 are allowed"},
		"too many members": {all(maxPartitions), 300, "spec.rolloutStrategy.partitions: invalid rollout strategy: " +
			"the partitions have more than 262144 clusters together: let fewer of them select the same cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewLayout(targetingtest.Bundle(strategy(fleet.RolloutStrategy{Partitions: test.partitions})), numbered(test.clusters), targeting.Groups{})
			if (err == nil) != (test.want == "") || err != nil && (err.Error() != test.want || !errors.Is(err, ErrStrategy)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		in   Layout
		want bool
	}{
		"nothing to limit":         {Undivided(0), false},
		"everything at once":       {Undivided(3), false},
		"fewer than all":           {func() Layout { l := Undivided(3); l.MaxUnavailable = 2; return l }(), true},
		"fewer than all of a part": {func() Layout { l := Undivided(3); l.Partitions[0].MaxUnavailable = 2; return l }(), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.in.Limits(); got != test.want {
				t.Errorf("limits = %v, want %v", got, test.want)
			}
		})
	}
}

func TestLayoutBeside(t *testing.T) {
	most := func(most *intstr.IntOrString) *fleet.Bundle {
		return targetingtest.Bundle(func(b *fleet.Bundle) { b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: most} })
	}
	percent, number := intstr.FromString("50%"), intstr.FromInt32(3)
	tests := map[string]struct {
		bundle *fleet.Bundle
		alone  int
		want   int
	}{
		"no cluster is left unchanged": {most(&percent), 0, 2},
		"percentage: of all clusters":  {most(&percent), 6, 5},
		"number: unchanged":            {most(&number), 6, 3},
		"default: all clusters":        {most(nil), 6, 10},
		"no strategy: all clusters":    {targetingtest.Bundle(), 6, 10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, err := NewLayout(test.bundle, numbered(4), targeting.Groups{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := before.Beside(test.bundle, test.alone)
			if err != nil {
				t.Fatal(err)
			}
			want := before
			want.MaxUnavailable = test.want
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("layout (-want +got):\n%s", diff)
			}
		})
	}
	broken := intstr.FromString("many")
	if _, err := (Layout{}).Beside(most(&broken), 1); !errors.Is(err, ErrStrategy) {
		t.Errorf("error %v", err)
	}
}
