package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func bundleTo(targets ...fleet.BundleTarget) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web"}}
	b.Spec.Targets = targets
	return b
}

func labelled(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func expressions(of ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: of}
}

func TestPicksOf(t *testing.T) {
	in := metav1.LabelSelectorRequirement{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"prod", "test"}}
	exists := metav1.LabelSelectorRequirement{Key: "zone", Operator: metav1.LabelSelectorOpExists}
	tests := map[string]struct {
		targets []fleet.BundleTarget
		want    []string
	}{
		"no target":                         {nil, nil},
		"a name":                            {[]fleet.BundleTarget{{ClusterName: "one"}}, []string{"ws/n/one"}},
		"a name and labels":                 {[]fleet.BundleTarget{{ClusterName: "one", ClusterSelector: labelled(map[string]string{"a": "b"})}}, []string{"ws/n/one"}},
		"a group":                           {[]fleet.BundleTarget{{ClusterGroup: "prod", ClusterSelector: labelled(nil)}}, []string{"ws/g/prod"}},
		"several labels: the first is used": {[]fleet.BundleTarget{{ClusterSelector: labelled(map[string]string{"zone": "a", "env": "prod"})}}, []string{"ws/l/env=prod"}},
		"one of several values":             {[]fleet.BundleTarget{{ClusterSelector: expressions(exists, in)}}, []string{"ws/l/env=prod", "ws/l/env=test"}},
		"a label with any value":            {[]fleet.BundleTarget{{ClusterSelector: expressions(exists)}}, []string{"ws/*"}},
		"all clusters":                      {[]fleet.BundleTarget{{ClusterSelector: labelled(nil)}}, []string{"ws/*"}},
		"labels of groups":                  {[]fleet.BundleTarget{{ClusterGroupSelector: labelled(map[string]string{"a": "b"})}}, []string{"ws/*"}},
		"several targets, some equal":       {[]fleet.BundleTarget{{ClusterName: "one"}, {ClusterGroup: "prod"}, {ClusterName: "one"}}, []string{"ws/g/prod", "ws/n/one"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, PicksOf(bundleTo(test.targets...))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeysOf(t *testing.T) {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "one", Labels: map[string]string{
		"env": "prod", fleet.LabelClusterDisplayName: "First",
	}}}
	got := KeysOf("ws", c, []string{"all"})
	slices.Sort(got)
	want := []string{"ws/*", "ws/g/all", "ws/l/env=prod", "ws/l/" + fleet.LabelClusterDisplayName + "=First", "ws/n/First", "ws/n/one"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Random Bundles are found for each cluster that they select.
func TestPicksOf_FindsEveryBundleThatSelectsACluster(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 39)) //nolint:gosec // the same ones each time
	groups := targeting.NewGroups([]*fleet.ClusterGroup{
		group("prod", labelled(map[string]string{"env": "prod"})), group("all", labelled(nil)), group("none", nil),
		group("broken", expressions(metav1.LabelSelectorRequirement{Key: "a", Operator: "Resembles"})),
	})
	picked := 0
	for range 5000 {
		b, c := randomBundle(random), randomCluster(random)
		selection, err := targeting.NewSelection(b)
		if err != nil {
			t.Fatal(err)
		}
		if !selection.Picks(c, groups) {
			continue
		}
		picked++
		criteria := PicksOf(b)
		if keys := KeysOf("ws", c, groups.Names(c)); !slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(criteria, key) }) {
			t.Fatalf("a Bundle with %+v goes to %s with %v, and is found by %v, not by any of %v", b.Spec.Targets, c.Name, c.Labels, criteria, keys)
		}
	}
	if picked < 500 {
		t.Errorf("only %d were picked: that proves nothing", picked)
	}
}

func group(name string, selector *metav1.LabelSelector) *fleet.ClusterGroup {
	g := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: map[string]string{"env": name}}}
	g.Spec.Selector = selector
	return g
}

func randomCluster(random *rand.Rand) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: fmt.Sprint("c", random.IntN(3)), Labels: map[string]string{}}}
	for _, key := range []string{"env", "zone", fleet.LabelClusterDisplayName} {
		if random.IntN(2) == 0 {
			c.Labels[key] = []string{"prod", "test", "c1", ""}[random.IntN(4)]
		}
	}
	return c
}

func randomBundle(random *rand.Rand) *fleet.Bundle {
	b := bundleTo()
	values := []string{"prod", "test", "c1", ""}
	for range 1 + random.IntN(3) {
		target := fleet.BundleTarget{}
		if random.IntN(3) == 0 {
			target.ClusterName = fmt.Sprint("c", random.IntN(3))
		}
		if random.IntN(3) == 0 {
			target.ClusterGroup = []string{"prod", "all", "none", "broken"}[random.IntN(4)]
		}
		switch random.IntN(5) {
		case 0:
			target.ClusterSelector = labelled(map[string]string{"env": values[random.IntN(4)]})
		case 1:
			target.ClusterSelector = expressions(metav1.LabelSelectorRequirement{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: values[:1+random.IntN(3)]})
		case 2:
			target.ClusterSelector = expressions(metav1.LabelSelectorRequirement{Key: "zone", Operator: metav1.LabelSelectorOpDoesNotExist})
		case 3:
			target.ClusterGroupSelector = labelled(map[string]string{"env": "prod"})
		}
		b.Spec.Targets = append(b.Spec.Targets, target)
	}
	if random.IntN(3) == 0 {
		b.Spec.TargetRestrictions = []fleet.BundleTargetRestriction{{ClusterSelector: labelled(nil)}}
	}
	return b
}

// Each of a thousand clusters has a Bundle of its own, which is not found for other clusters.
func TestBundlesOfOneCluster_AreFoundOnlyByIt(t *testing.T) {
	found := map[string]int{}
	for i := range 1000 {
		for _, criterion := range PicksOf(bundleTo(fleet.BundleTarget{ClusterName: fmt.Sprint("c", i)})) {
			found[criterion]++
		}
	}
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c7", Labels: map[string]string{"env": "prod"}}}
	looked := 0
	for _, key := range KeysOf("ws", c, []string{"prod"}) {
		looked += found[key]
	}
	if looked != 1 || len(slices.Collect(maps.Keys(found))) != 1000 {
		t.Errorf("%d Bundles are looked at for one cluster", looked)
	}
}
