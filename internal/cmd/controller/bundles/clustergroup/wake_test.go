package clustergroup

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
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
		"a condition":              {func(c *fleet.Cluster) { c.Status.Conditions = conditions(isTrue, isTrue) }, false},
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

func group(generation int64, selector *metav1.LabelSelector) *fleet.ClusterGroup {
	return &fleet.ClusterGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "g", UID: "u", Generation: generation},
		Spec:       fleet.ClusterGroupSpec{Selector: selector},
	}
}

func TestSelectorsFollowTheGeneration(t *testing.T) {
	prod, dev := labels.Set{"env": "prod"}, labels.Set{"env": "dev"}
	selects := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"env": value}}
	}
	s := newSelectors()
	steps := []struct {
		name string
		in   *fleet.ClusterGroup
		sets []labels.Set
		want bool
	}{
		{"it picks", group(1, selects("prod")), []labels.Set{prod}, true},
		{"it does not", group(1, selects("prod")), []labels.Set{dev}, false},
		{"one of two sets is enough, as when a label changes", group(1, selects("prod")), []labels.Set{dev, prod}, true},
		{"the same generation is not looked at again", group(1, selects("dev")), []labels.Set{prod}, true},
		{"a newer one is", group(2, selects("dev")), []labels.Set{prod}, false},
		{"one that does not parse picks nothing", group(3, selects("a b")), []labels.Set{prod, dev, {"env": "a b"}}, false},
		{"none picks nothing", group(4, nil), []labels.Set{prod, dev, {}}, false},
		{"an empty one picks everything", group(5, &metav1.LabelSelector{}), []labels.Set{{}}, true},
	}
	for _, step := range steps {
		if got := s.pick(step.in, step.sets...); got != step.want {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
		_, err := s.of(step.in)
		if broken := step.in.Generation == 3; broken != errors.Is(err, targeting.ErrSelector) {
			t.Errorf("%s: error = %v", step.name, err)
		}
	}
	s.forget("u")
	if !s.pick(group(5, selects("prod")), prod) {
		t.Error("what was forgotten is still known")
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
