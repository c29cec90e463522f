package targeting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Clusters one and two are each in a group of their own, cluster three is in none. Want maps each selected cluster to
// its values.
func TestTargets(t *testing.T) {
	clusters := []*fleet.Cluster{
		targetingtest.Cluster("one", targetingtest.Labelled("n", "1")), targetingtest.Cluster("two", targetingtest.Labelled("n", "2")), targetingtest.Cluster("three", targetingtest.Labelled("n", "3")),
	}
	groups := []*fleet.ClusterGroup{targetingtest.Group("first", "n", "1"), targetingtest.Group("second", "n", "2")}
	restrictTo := func(name string) fleet.BundleTargetRestriction {
		return fleet.BundleTargetRestriction{ClusterName: name}
	}
	everyone := fleet.BundleTargetRestriction{ClusterSelector: targetingtest.Selector()}
	tests := map[string]struct {
		in   *fleet.Bundle
		want map[string]map[string]any
	}{
		"no targets, no clusters": {targetingtest.Bundle(), map[string]map[string]any{}},
		"a target for all": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere())),
			map[string]map[string]any{"one": {}, "two": {}, "three": {}},
		},
		"the first target that picks a cluster wins": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("first", targetingtest.Setting("a", 1)), targetingtest.Everywhere(targetingtest.Setting("b", 2)))),
			map[string]map[string]any{"one": {"a": 1}, "two": {"b": 2}, "three": {"b": 2}},
		},
		"a target that excludes wins as well": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.In("two", targetingtest.DoNotDeploy), targetingtest.Everywhere())),
			map[string]map[string]any{"one": {}, "three": {}},
		},
		"a target that excludes, too late": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(), targetingtest.In("two", targetingtest.DoNotDeploy))),
			map[string]map[string]any{"one": {}, "two": {}, "three": {}},
		},
		"restrictions limit the targets": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), targetingtest.Restrictions(restrictTo("one"))),
			map[string]map[string]any{"one": {}},
		},
		"a restriction and a target must hold in the same group": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("first")), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "second"})),
			map[string]map[string]any{},
		},
		"any restriction is enough": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(), targetingtest.Everywhere()), targetingtest.Restrictions(restrictTo("one"), restrictTo("three"))),
			map[string]map[string]any{"one": {}, "three": {}},
		},
		"targets before those of the restrictions only customise": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(targetingtest.Setting("c", 1)), targetingtest.Everywhere()), targetingtest.Restrictions(restrictTo("one"))),
			map[string]map[string]any{"one": {"c": 1}},
		},
		"the first customisation replaces the target": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("first", targetingtest.Setting("a", 1)), targetingtest.Everywhere(targetingtest.Setting("b", 2)), targetingtest.Everywhere(targetingtest.Setting("c", 3))), targetingtest.Restrictions(everyone)),
			map[string]map[string]any{"one": {"a": 1}, "two": {"b": 2}, "three": {"b": 2}},
		},
		"no customisation: the target counts": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("first", targetingtest.Setting("a", 1)), targetingtest.Everywhere(targetingtest.Setting("c", 3))), targetingtest.Restrictions(everyone)),
			map[string]map[string]any{"one": {"a": 1}, "two": {"c": 3}, "three": {"c": 3}},
		},
		"all customisations are merged in order": {
			targetingtest.Bundle(targetingtest.AllMatches, targetingtest.Targets(targetingtest.InGroup("first", targetingtest.Setting("a", 1)), targetingtest.Everywhere(targetingtest.Setting("a", 2)), targetingtest.Everywhere(targetingtest.Setting("c", 3))), targetingtest.Restrictions(everyone)),
			map[string]map[string]any{"one": {"c": 3, "a": 2}, "two": {"c": 3, "a": 2}, "three": {"c": 3, "a": 2}},
		},
		"any customisation that excludes is enough when all count": {
			targetingtest.Bundle(targetingtest.AllMatches, targetingtest.Targets(targetingtest.Everywhere(targetingtest.Setting("a", 1)), targetingtest.InGroup("second", targetingtest.DoNotDeploy), targetingtest.Everywhere()), targetingtest.Restrictions(everyone)),
			map[string]map[string]any{"one": {"a": 1}, "three": {"a": 1}},
		},
		"a customisation that excludes all": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(targetingtest.DoNotDeploy), targetingtest.Everywhere()), targetingtest.Restrictions(everyone)),
			map[string]map[string]any{},
		},
		"a customisation that excludes another group": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("second", targetingtest.DoNotDeploy), targetingtest.Everywhere()), targetingtest.Restrictions(restrictTo("one"))),
			map[string]map[string]any{"one": {}},
		},
		"a wider customisation before it: the clusters stay": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(), targetingtest.InGroup("second", targetingtest.DoNotDeploy), targetingtest.Everywhere()), targetingtest.Restrictions(everyone)),
			map[string]map[string]any{"one": {}, "two": {}, "three": {}},
		},
		"more restrictions than targets: no customisation": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(targetingtest.Setting("a", 1))), targetingtest.Restrictions(restrictTo("one"), restrictTo("two"))),
			map[string]map[string]any{"one": {"a": 1}, "two": {"a": 1}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.in.DeepCopy()
			got := map[string]map[string]any{}
			for _, target := range targetsOf(t, test.in, clusters, groups...) {
				if target.Err != nil {
					t.Fatal(target.Err)
				}
				got[target.Cluster.Name] = valuesOf(target)
			}
			if diff := cmp.Diff(wholeNumbers(test.want), wholeNumbers(got)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.in); diff != "" {
				t.Errorf("the Bundle was changed:\n%s", diff)
			}
			expectPicks(t, test.in, clusters, groups, got)
		})
	}
}

// wholeNumbers makes numbers alike: templating reads them from text.
func wholeNumbers(in map[string]map[string]any) map[string]map[string]any {
	for _, values := range in {
		for key, value := range values {
			if number, isInt := value.(int); isInt {
				values[key] = int64(number)
			}
		}
	}
	return in
}

func valuesOf(target Target) map[string]any {
	if target.Options.Helm == nil || target.Options.Helm.Values == nil {
		return map[string]any{}
	}
	return target.Options.Helm.Values.Data
}

func expectPicks(t *testing.T, b *fleet.Bundle, clusters []*fleet.Cluster, groups []*fleet.ClusterGroup, want map[string]map[string]any) {
	t.Helper()
	selection, err := NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		if _, picked := want[c.Name]; selection.Picks(c, NewGroups(groups)) != picked {
			t.Errorf("Picks(%s) = %v", c.Name, !picked)
		}
	}
}

func TestTargets_AreOrdered(t *testing.T) {
	other := targetingtest.Cluster("a", func(c *fleet.Cluster) { c.Namespace = "zz" })
	got := targetsOf(t, targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere())), []*fleet.Cluster{targetingtest.Cluster("b"), other, targetingtest.Cluster("a")})
	var keys []string
	for _, target := range got {
		keys = append(keys, targetingtest.Key(target.Cluster).String())
	}
	if diff := cmp.Diff([]string{"ws/a", "zz/a", "ws/b"}, keys); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestNamespaceLabels_AreMergedAndNotPartOfTheID(t *testing.T) {
	clusters := []*fleet.Cluster{targetingtest.Cluster("one"), targetingtest.Cluster("two")}
	b := targetingtest.Bundle(targetingtest.Targets(targetingtest.In("one", targetingtest.NamespaceLabel("tier", "gold")), targetingtest.Everywhere()), func(b *fleet.Bundle) {
		b.Spec.NamespaceLabels = map[string]string{"team": "a"}
	})
	got := targetsOf(t, b, clusters)
	want := []map[string]string{{"team": "a", "tier": "gold"}, {"team": "a"}}
	if diff := cmp.Diff(want, []map[string]string{got[0].Options.NamespaceLabels, got[1].Options.NamespaceLabels}); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got[0].DeploymentID != got[1].DeploymentID {
		t.Errorf("a target's namespace labels are in the deployment ID: %s, %s", got[0].DeploymentID, got[1].DeploymentID)
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, b.Spec.NamespaceLabels); diff != "" {
		t.Errorf("the Bundle was changed:\n%s", diff)
	}
}

func TestTemplateError_ConcernsOneCluster(t *testing.T) {
	b := targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), func(b *fleet.Bundle) { b.Spec.Helm = targetingtest.Helm("zone", "${ .ClusterLabels.zone }") })
	got := targetsOf(t, b, []*fleet.Cluster{targetingtest.Cluster("one", targetingtest.Labelled("env", "dev")), targetingtest.Cluster("two", targetingtest.Labelled("zone", "b"))})
	if len(got) != 2 {
		t.Fatalf("%d targets, want 2", len(got))
	}
	const want = `cluster one in namespace ws: helm.values: template: values:1:23: executing "values" at <.ClusterLabels.zone>: map has no entry for key "zone"`
	if got[0].Err == nil || got[0].Err.Error() != want {
		t.Errorf("error = %v, want %s", got[0].Err, want)
	}
	if got[0].DeploymentID != "" {
		t.Errorf("the failed cluster has deployment ID %s", got[0].DeploymentID)
	}
	if diff := cmp.Diff(map[string]any{"zone": "b"}, valuesOf(got[1])); diff != "" {
		t.Errorf("values of the other (-want +got):\n%s", diff)
	}
}

func TestAllMatches_MergesTargetsBeforeTheBundle(t *testing.T) {
	timeout := func(seconds int) func(*fleet.BundleTarget) {
		return func(t *fleet.BundleTarget) { t.Helm = &fleet.HelmOptions{TimeoutSeconds: seconds} }
	}
	b := targetingtest.Bundle(targetingtest.AllMatches, func(b *fleet.Bundle) { b.Spec.Helm = &fleet.HelmOptions{TimeoutSeconds: 60} })
	tests := map[string]struct {
		overlays []int
		want     int
	}{
		"a customisation resets the target's timeout: the root's counts": {[]int{30, -1}, 60},
		"a target resets the root's timeout":                             {[]int{-1}, 0},
		"a customisation replaces a reset":                               {[]int{-1, 30}, 30},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var picked chosen
			for _, seconds := range test.overlays {
				target := targetingtest.Everywhere(timeout(seconds))
				picked.overlays = append(picked.overlays, &target)
			}
			s := &Selection{bundle: b}
			if got := s.options(picked).Helm.TimeoutSeconds; got != test.want {
				t.Errorf("timeout %d, want %d", got, test.want)
			}
		})
	}
}
