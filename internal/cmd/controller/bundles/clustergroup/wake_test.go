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
		"a recreated Cluster":    {func(c *fleet.Cluster) { c.UID = "other" }, true},
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
		"selector matches":              {selects("prod"), []labels.Set{prod}, true},
		"selector does not match":       {selects("prod"), []labels.Set{dev}, false},
		"one of two label sets matches": {selects("prod"), []labels.Set{dev, prod}, true},
		"invalid selector: no match":    {selects("a b"), []labels.Set{prod, dev, {"env": "a b"}}, false},
		"no selector: no match":         {nil, []labels.Set{prod, dev, {}}, false},
		"empty selector: match":         {&metav1.LabelSelector{}, []labels.Set{{}}, true},
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
		"a new one":         {nil, func(*fleet.ClusterGroup) {}, true},
		"nothing":           {older, func(*fleet.ClusterGroup) {}, false},
		"a label":           {older, func(g *fleet.ClusterGroup) { g.Labels["a"] = "c" }, false},
		"another shard's":   {older, func(g *fleet.ClusterGroup) { g.Labels[fleet.LabelShardRef] = "s" }, true},
		"its spec":          {older, func(g *fleet.ClusterGroup) { g.Generation = 2 }, true},
		"a recreated group": {older, func(g *fleet.ClusterGroup) { g.UID = "v" }, true},
		"its status":        {older, func(g *fleet.ClusterGroup) { g.Status.ClusterCount = 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := groupMatters(test.older, group(test.change)); got != test.want {
				t.Errorf("matters: %v", got)
			}
		})
	}
}
