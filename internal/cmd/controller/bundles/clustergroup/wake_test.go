package clustergroup

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestClusterMatters(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.Cluster)
		want   bool
	}{
		"nothing":                  {func(*fleet.Cluster) {}, false},
		"a heartbeat":              {func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.NewTime(now) }, false},
		"an annotation":            {func(c *fleet.Cluster) { c.Annotations = map[string]string{"a": "b"} }, false},
		"its spec":                 {func(c *fleet.Cluster) { c.Generation++; c.Spec.Paused = true }, false},
		"a condition":              {func(c *fleet.Cluster) { c.Status.Conditions = conditionsOf(isTrue, isTrue) }, false},
		"a label":                  {func(c *fleet.Cluster) { c.Labels = map[string]string{"a": "b"} }, true},
		"a count of its resources": {func(c *fleet.Cluster) { c.Status.ResourceCounts.Missing++ }, true},
		"a count of its Bundles":   {func(c *fleet.Cluster) { c.Status.Summary.Pending++ }, true},
		"why a Bundle is not ready": {
			func(c *fleet.Cluster) {
				c.Status.Summary.NonReadyResources = []fleet.NonReadyResource{{Name: "web", Message: "no"}}
			}, true,
		},
		"its agent falls silent": {mute, true},
		"another of a name":      {func(c *fleet.Cluster) { c.UID = "other" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			older, newer := member("a", ready(1)), member("a", ready(1))
			test.change(newer)
			if got := clusterMatters(older, newer); got != test.want {
				t.Errorf("matters = %v, want %v", got, test.want)
			}
		})
	}
}

func TestPicks(t *testing.T) {
	prod, dev := labels.Set{"env": "prod"}, labels.Set{"env": "dev"}
	selects := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"env": value}}
	}
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		sets     []labels.Set
		want     bool
	}{
		"it picks":    {selects("prod"), []labels.Set{prod}, true},
		"it does not": {selects("prod"), []labels.Set{dev}, false},
		"one of two sets is enough, as when a label changes": {selects("prod"), []labels.Set{dev, prod}, true},
		"one that does not parse picks nothing":              {selects("a b"), []labels.Set{prod, dev, {"env": "a b"}}, false},
		"none picks nothing":                                 {nil, []labels.Set{prod, dev, {}}, false},
		"an empty one picks everything":                      {&metav1.LabelSelector{}, []labels.Set{{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := picks(&fleet.ClusterGroup{Spec: fleet.ClusterGroupSpec{Selector: test.selector}}, test.sets...); got != test.want {
				t.Errorf("picks = %v, want %v", got, test.want)
			}
		})
	}
}

func TestGroupMatters(t *testing.T) {
	group := func(change func(*fleet.ClusterGroup)) *fleet.ClusterGroup {
		g := &fleet.ClusterGroup{}
		g.UID, g.Generation, g.Labels = "u", 1, map[string]string{"a": "b"}
		change(g)
		return g
	}
	older := group(func(*fleet.ClusterGroup) {})
	for name, test := range map[string]struct {
		older  *fleet.ClusterGroup
		change func(*fleet.ClusterGroup)
		want   bool
	}{
		"a new one":                {nil, func(*fleet.ClusterGroup) {}, true},
		"nothing":                  {older, func(*fleet.ClusterGroup) {}, false},
		"a label":                  {older, func(g *fleet.ClusterGroup) { g.Labels["a"] = "c" }, false},
		"another shard's":          {older, func(g *fleet.ClusterGroup) { g.Labels[fleet.LabelShardRef] = "s" }, true},
		"its spec":                 {older, func(g *fleet.ClusterGroup) { g.Generation = 2 }, true},
		"another one of that name": {older, func(g *fleet.ClusterGroup) { g.UID = "v" }, true},
		"its status":               {older, func(g *fleet.ClusterGroup) { g.Status.ClusterCount = 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := groupMatters(test.older, group(test.change)); got != test.want {
				t.Errorf("matters: %v", got)
			}
		})
	}
}
