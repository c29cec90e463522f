package targeting

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	"github.com/fleet-hub/fleet/internal/rules/templating"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Caches list objects in any order.
func TestTargets_DoNotDependOnTheOrderOfInput(t *testing.T) {
	random := rand.New(rand.NewSource(3))
	var clusters []*fleet.Cluster
	for i := range 30 {
		clusters = append(clusters, targetingtest.Cluster(fmt.Sprint("c", i), targetingtest.Labelled("env", []string{"dev", "prod", "test"}[i%3], "n", fmt.Sprint(i))))
	}
	groups := []*fleet.ClusterGroup{
		targetingtest.Group("dev", "env", "dev", targetingtest.GroupLabelled("tier", "low")), targetingtest.Group("prod", "env", "prod", targetingtest.GroupLabelled("tier", "high")),
		targetingtest.Group("prod-too", "env", "prod", targetingtest.GroupLabelled("tier", "high", "x", "y")),
	}
	b := targetingtest.Bundle(targetingtest.AllMatches, targetingtest.Targets(
		targetingtest.InGroup("prod", targetingtest.Setting("a", "${ .ClusterLabels.n }")),
		targetingtest.Everywhere(targetingtest.Setting("b", "global.fleet.clusterLabels.env")),
		fleet.BundleTarget{ClusterGroupSelector: targetingtest.Selector("tier", "high")},
		targetingtest.In("c3"),
	), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroupSelector: targetingtest.Selector("tier", "high")}, fleet.BundleTargetRestriction{ClusterName: "c3"}))
	want := asText(t, targetsOf(t, b, clusters, groups...))
	for range 50 {
		random.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
		random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
		if diff := cmp.Diff(want, asText(t, targetsOf(t, b, clusters, groups...))); diff != "" {
			t.Fatalf("another order, another outcome (-want +got):\n%s", diff)
		}
	}
	if len(want) != 11 {
		t.Errorf("%d clusters were picked, want the 10 of prod and c3", len(want))
	}
}

// asText is what a target becomes on the wire, with its cluster.
func asText(t testing.TB, targets []Target) (out []string) {
	t.Helper()
	for _, target := range targets {
		if target.Err != nil {
			t.Fatal(target.Err)
		}
		text, err := json.Marshal(target.Options)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, target.Cluster.Name+" "+target.DeploymentID+" "+string(text))
	}
	return out
}

func TestTargets_ClustersAreIndependent(t *testing.T) {
	clusters := []*fleet.Cluster{targetingtest.Cluster("a", targetingtest.Labelled("n", "1")), targetingtest.Cluster("b", targetingtest.Labelled("n", "2")), targetingtest.Cluster("c")}
	b := targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(targetingtest.Setting("n", "${ .ClusterLabels.n }"), targetingtest.NamespaceLabel("a", "b"))))
	var one []string
	for _, c := range clusters {
		one = append(one, asText(t, targetsOf(t, b, []*fleet.Cluster{c}))...)
	}
	all := asText(t, targetsOf(t, b, clusters))
	slices.Sort(one)
	if diff := cmp.Diff(one, all); diff != "" {
		t.Errorf("together they differ (-alone +together):\n%s", diff)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add(`{"a":"${ .ClusterName }"}`, "b: ${ .ClusterLabels.env }")
	f.Add(`{"a":"global.fleet.clusterLabels.env","b":[{"c":"global.fleet.clusterLabels."}]}`, "")
	f.Add(`{"a":{"b":null}}`, "${ fail \"x\" }")
	f.Fuzz(func(t *testing.T, values, template string) {
		var parsed fleet.GenericMap
		if err := json.Unmarshal([]byte(values), &parsed); err != nil {
			return
		}
		in := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Values: &parsed, TemplateValues: map[string]string{"key": template}}}
		if err := templating.NewTemplater().Template(&in, targetingtest.Templated(t, "")); err != nil {
			return
		}
		if _, err := DeploymentID("s-1", in); err != nil {
			t.Errorf("values that templating accepted have no ID: %v", err)
		}
	})
}

func BenchmarkTargets(b *testing.B) {
	var clusters []*fleet.Cluster
	for i := range 1000 {
		clusters = append(clusters, targetingtest.Cluster(fmt.Sprint("c", i), targetingtest.Labelled("env", "dev")))
	}
	for name, in := range map[string]*fleet.Bundle{
		"one of 1000":             targetingtest.Bundle(targetingtest.Targets(targetingtest.In("c500"))),
		"1000 without templating": targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere())),
		"1000 with templating":    targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(targetingtest.Setting("name", "${ .ClusterName }")))),
	} {
		selection, err := NewSelection(in)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				selection.Targets("s-1", clusters, Groups{}, nil)
			}
		})
	}
}

// targetsOf runs the selection and fails the test if the Bundle cannot be used.
func targetsOf(t testing.TB, b *fleet.Bundle, clusters []*fleet.Cluster, groups ...*fleet.ClusterGroup) []Target {
	t.Helper()
	selection, err := NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	return selection.Targets("s-1", clusters, NewGroups(groups), nil)
}
