package targeting

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	"github.com/fleet-hub/fleet/internal/rules/templating"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// aliased is a YAML text of about that length, whose aliases stand for much more.
func aliased(length int) string {
	return "a: &a " + strings.Repeat("x", length/2) + "\nb: [" + strings.Repeat("*a,", length/6) + "*a]\n"
}

func withTemplateValue(key, text string) *fleet.Bundle {
	return targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{TemplateValues: map[string]string{key: text}}
	})
}

// allocated is how many bytes f allocates, whether they are freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAliasesInTemplateValues_AreRefusedBeforeTheyExpand(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		clusters int
	}{
		"70 KB":                        {aliased(70_000), 1},
		"1 MB":                         {aliased(1_000_000), 1},
		"1 MB for many clusters":       {aliased(1_000_000), 100},
		"1 MB that templates write":    {"${ .ClusterName }: 1\n" + aliased(1_000_000), 1},
		"1 MB without aliases":         {"[" + strings.Repeat("[],", 330_000) + "1]", 1},
		"1 MB of objects":              {"[" + strings.Repeat("{a: 1},", 140_000) + "1]", 1},
		"within the limit of 1 MB":     {"a: &a [" + strings.Repeat("x,", 90) + "x]\nb: [" + strings.Repeat("*a,", 90) + "*a]\n" + strings.Repeat("#", 999_000), 1},
		"lists in lists":               {"a: &a [" + strings.Repeat("x,", 9_000) + "x]\nb: [" + strings.Repeat("*a,", 9_000) + "*a]\n", 1},
		"more than the limit, in 9 KB": {aliased(9_000), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var clusters []*fleet.Cluster
			for i := range test.clusters {
				clusters = append(clusters, targetingtest.Cluster(fmt.Sprintf("k-%d", i), targetingtest.Labelled("env", "dev")))
			}
			b := withTemplateValue("config", test.text)
			var got []Target
			if cost := allocated(func() { got = targetsOf(t, b, clusters) }); cost > 50<<20 {
				t.Errorf("a text of %d bytes took %d MiB", len(test.text), cost>>20)
			}
			if strings.Contains(name, "limit of") {
				if got[0].Err != nil {
					t.Error(got[0].Err)
				}
				return
			}
			for _, target := range got {
				if !errors.Is(target.Err, yamlbound.ErrTooLarge) || !strings.Contains(fmt.Sprint(target.Err), "helm.templateValues.config: ") {
					t.Fatalf("error = %v, want one that names the field", target.Err)
				}
			}
		})
	}
}

// Options of many clusters are not held all at once.
func TestOptionsOfManyClusters_AreWorkedOutWhereTheyAreNeeded(t *testing.T) {
	var clusters []*fleet.Cluster
	for i := range 60 {
		clusters = append(clusters, targetingtest.Cluster(fmt.Sprintf("k-%02d", i), targetingtest.Labelled("env", "dev")))
	}
	b := withTemplateValue("text", `${ repeat 1000000 "x" }`)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got := targetsOf(t, b, clusters)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 30<<20 {
		t.Errorf("%d MiB are held", held>>20)
	}
	for _, target := range got {
		complete, err := target.Complete()
		if err != nil || complete.DeploymentID != target.DeploymentID || complete.Options.Helm == nil {
			t.Fatalf("%s: %v; deployment ID %s, of its options %s", target.Cluster.Name, err, target.DeploymentID, complete.DeploymentID)
		}
	}
}

// Values that a label makes different for each cluster are remembered for a few clusters only.
func TestValuesThatDifferPerCluster_AreNotHeldForAll(t *testing.T) {
	templater := templating.NewTemplater()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 200 {
		in := fleet.BundleDeploymentOptions{Helm: targetingtest.Helm("name", "global.fleet.clusterLabels.name")}
		in.Helm.Values.Data["text"] = strings.Repeat("x", 300_000)
		if err := templater.Template(&in, targetingtest.Cluster("k", targetingtest.Labelled("name", fmt.Sprint("k-", i)))); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 30<<20 {
		t.Errorf("%d MiB are held", held>>20)
	}
	runtime.KeepAlive(templater)
}

// counted is a selector that counts how often it is asked.
type counted struct {
	labels.Selector
	calls *int
}

// Matches counts and matches.
func (c counted) Matches(of labels.Labels) bool {
	*c.calls++
	return c.Selector.Matches(of)
}

// countCalls counts how often the selectors of a selection are asked about clusters.
func countCalls(s *Selection) *int {
	calls := new(int)
	for i := range s.restrictions {
		s.restrictions[i].clusters = counted{s.restrictions[i].clusters, calls}
	}
	for i := range s.targets {
		s.targets[i].matcher.clusters = counted{s.targets[i].matcher.clusters, calls}
	}
	return calls
}

// A GitRepo gives a Bundle a restriction for each target.
func TestTargetsWithAsManyRestrictions_AreNotComparedWithEach(t *testing.T) {
	const count = 500
	b := targetingtest.Bundle(func(b *fleet.Bundle) {
		for i := range count {
			selector := targetingtest.Selector("name", fmt.Sprint("k-", i))
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterSelector: selector})
			b.Spec.TargetRestrictions = append(b.Spec.TargetRestrictions, fleet.BundleTargetRestriction{ClusterSelector: selector})
		}
	})
	selection, err := NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	calls := countCalls(selection)
	last, other := targetingtest.Cluster("last", targetingtest.Labelled("name", fmt.Sprint("k-", count-1))), targetingtest.Cluster("other")
	if !selection.Picks(last, Groups{}) || selection.Picks(other, Groups{}) {
		t.Error("the wrong clusters are picked")
	}
	if *calls > 4*count {
		t.Errorf("two clusters took %d comparisons", *calls)
	}
}

// expectLinear expects that four times the size needs about four times the memory. Copies and the keys of entries need some.
func expectLinear(t *testing.T, work func(size int)) {
	t.Helper()
	few, many := allocated(func() { work(500) }), allocated(func() { work(2000) })
	if many > 6*few {
		t.Errorf("four times the size allocates %d instead of %d KiB", many>>10, few>>10)
	}
}

// Lists are merged by key for each cluster, and may be as long as a Bundle.
func TestLongLists_AreMergedWithLinearWork(t *testing.T) {
	expectLinear(t, func(size int) {
		var base, overlay fleet.BundleDeploymentOptions
		for i := range size {
			base.DownstreamResources = append(base.DownstreamResources, fleet.DownstreamResource{Kind: "Secret", Name: fmt.Sprint("a-", i)})
			overlay.DownstreamResources = append(overlay.DownstreamResources, fleet.DownstreamResource{Kind: "Secret", Name: fmt.Sprint("b-", i)})
		}
		if got := len(Merge(base, overlay).DownstreamResources); got != 2*size {
			t.Errorf("%d entries of %d", got, 2*size)
		}
	})
}

// Many targets may name the same group that does not exist.
func TestUnknownGroupOfManyTargets_IsTriedOnce(t *testing.T) {
	const count = 500
	b := targetingtest.Bundle(func(b *fleet.Bundle) {
		for range count {
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterGroup: "gone", ClusterSelector: targetingtest.Selector("name", "other")})
		}
	})
	selection, err := NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	calls := countCalls(selection)
	other := targetingtest.Cluster("other", targetingtest.Labelled("name", "other"))
	if selection.PicksIf(targetingtest.Cluster("k"), Groups{}, selection.UnknownGroups(nil)) || !selection.PicksIf(other, Groups{}, selection.UnknownGroups(nil)) {
		t.Error("the wrong clusters are picked")
	}
	if *calls > count+1 {
		t.Errorf("two clusters took %d comparisons", *calls)
	}
}

// Many targets may name different groups that do not exist.
func TestManyUnknownGroups_PickWithoutALook(t *testing.T) {
	b := targetingtest.Bundle(func(b *fleet.Bundle) {
		for i := range 500 {
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterGroup: fmt.Sprint("gone-", i), ClusterSelector: targetingtest.Selector("name", "other")})
		}
	})
	selection, err := NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	calls, unknown := countCalls(selection), selection.UnknownGroups(nil)
	if !selection.PicksIf(targetingtest.Cluster("k"), Groups{}, unknown) {
		t.Error("a deployment would be deleted because of groups that do not exist")
	}
	if *calls > 0 {
		t.Errorf("it took %d comparisons", *calls)
	}
	if selection.PicksIf(targetingtest.Cluster("k"), Groups{}, unknown[:mostUnknown]) {
		t.Error("a cluster is picked that no target names")
	}
	if *calls > 2*mostUnknown {
		t.Errorf("%d groups took %d comparisons", mostUnknown, *calls)
	}
}

// The work would grow with the cube of the number of groups and targets.
func TestManyBrokenGroups_LeaveAClusterUndecidedWithoutALook(t *testing.T) {
	b := targetingtest.Bundle(func(b *fleet.Bundle) {
		for i := range 500 {
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterGroup: fmt.Sprint("g-", i), ClusterSelector: targetingtest.Selector("name", "other")})
		}
	})
	selection, err := NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	cluster := targetingtest.Cluster("other", targetingtest.Labelled("name", "other"))
	undecided := func(broken int) error {
		var groups []*fleet.ClusterGroup
		for i := range broken {
			group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: fmt.Sprint("x-", i)}}
			group.Spec.Selector = targetingtest.Unparsable()
			groups = append(groups, group)
		}
		return selection.Undecided(cluster, NewGroups(groups))
	}
	calls := countCalls(selection)
	if err := undecided(mostUnknown); err != nil {
		t.Errorf("no target names a group whose selector is invalid: %v", err)
	}
	*calls = 0
	if err := undecided(500); !errors.Is(err, ErrSelector) {
		t.Errorf("error = %v, want %v", err, ErrSelector)
	}
	if *calls > 0 {
		t.Errorf("it took %d comparisons", *calls)
	}
}

// With AllMatches, all customisations of a Bundle may apply to each cluster.
func TestManyCustomisations_AreMergedWithLinearWork(t *testing.T) {
	expectLinear(t, func(size int) {
		b := targetingtest.Bundle(targetingtest.AllMatches, func(b *fleet.Bundle) {
			for i := range size {
				target := fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}, NamespaceLabels: map[string]string{fmt.Sprint("l-", i): ""}}
				target.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"v": map[string]any{fmt.Sprint("k-", i): "x"}}}}
				target.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: fmt.Sprint("s-", i)}}
				b.Spec.Targets = append(b.Spec.Targets, target)
			}
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}})
			b.Spec.TargetRestrictions = []fleet.BundleTargetRestriction{{ClusterSelector: &metav1.LabelSelector{}}}
		})
		got, err := targetsOf(t, b, []*fleet.Cluster{targetingtest.Cluster("k")})[0].Complete()
		if err != nil {
			t.Fatal(err)
		}
		values, _ := got.Options.Helm.Values.Data["v"].(map[string]any)
		if len(values) != size || len(got.Options.DownstreamResources) != size || len(got.Options.NamespaceLabels) != size {
			t.Errorf("%d values, %d resources, %d labels", len(values), len(got.Options.DownstreamResources), len(got.Options.NamespaceLabels))
		}
		if first := b.Spec.Targets[0]; len(first.NamespaceLabels) != 1 || len(first.DownstreamResources) != 1 {
			t.Error("the Bundle was changed")
		}
	})
}

// largeGroups have many values in their selectors. The second one has an invalid value, too.
func largeGroups() []*fleet.ClusterGroup {
	var values []string
	for i := range 20_000 {
		values = append(values, fmt.Sprintf("%x", i))
	}
	var groups []*fleet.ClusterGroup
	for i, last := range []string{"a", "not valid"} {
		group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{
			Namespace: targetingtest.Cluster("k").Namespace, Name: fmt.Sprint("g-", i), UID: types.UID(fmt.Sprint("u-", i)), Generation: 1,
		}}
		group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: append(slices.Clone(values), last)},
		}}
		groups = append(groups, group)
	}
	return groups
}

func TestUpdatedGroups_ParseOnlyChangedSelectors(t *testing.T) {
	none := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "none"}}
	tests := map[string]struct {
		change func([]*fleet.ClusterGroup) []*fleet.ClusterGroup
		want   []string
		parses bool
	}{
		"nothing changes": {func(g []*fleet.ClusterGroup) []*fleet.ClusterGroup { return g }, []string{"g-0", "g-1"}, false},
		"their status and labels change": {func(g []*fleet.ClusterGroup) []*fleet.ClusterGroup {
			g[0].Status.ClusterCount, g[1].Labels = 3, map[string]string{"a": "b"}
			return g
		}, []string{"g-0", "g-1"}, false},
		"a group is deleted": {func(g []*fleet.ClusterGroup) []*fleet.ClusterGroup { return g[1:] }, []string{"g-1"}, false},
		"selectors change": {func(g []*fleet.ClusterGroup) []*fleet.ClusterGroup {
			for _, group := range g {
				group.Generation, group.Spec.Selector = 2, none
			}
			return g
		}, nil, false},
		"a group is recreated": {func(g []*fleet.ClusterGroup) []*fleet.ClusterGroup {
			g[0].UID = "other"
			return g
		}, []string{"g-0", "g-1"}, true},
	}
	cluster := targetingtest.Cluster("k", targetingtest.Labelled("env", "dev"))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, changed := NewGroups(largeGroups()), test.change(largeGroups())
			var got []string
			cost := allocated(func() { got = before.Update(changed).Names(cluster) })
			if !slices.Equal(got, test.want) {
				t.Errorf("the cluster is in %v, want %v", got, test.want)
			}
			if parses := cost > 200<<10; parses != test.parses {
				t.Errorf("it took %d KiB", cost>>10)
			}
		})
	}
}
