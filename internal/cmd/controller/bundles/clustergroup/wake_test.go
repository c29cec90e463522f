package clustergroup

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/reconcile"
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

func labelled(env string) *fleet.Cluster {
	return member("a", func(c *fleet.Cluster) { c.Labels = map[string]string{"env": env} })
}

// newHandler returns a handler on a hub in memory with some groups.
func newHandler(t *testing.T, groups ...*fleet.ClusterGroup) *handler {
	t.Helper()
	hub := hubtest.New(t)
	for _, group := range groups {
		hub.Put(group)
	}
	return &handler{app: hub.App, queue: queue.New(queue.Options{Name: t.Name(), Log: hub.App.Log}, nil)}
}

func TestChangedCluster_EnqueuesItsGroups(t *testing.T) {
	selects := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"env": value}}
	}
	for name, test := range map[string]struct {
		selector     *metav1.LabelSelector
		older, newer *fleet.Cluster
		want         bool
	}{
		"selector matches":                {selects("prod"), nil, labelled("prod"), true},
		"selector does not match":         {selects("prod"), nil, labelled("dev"), false},
		"selector matches the old labels": {selects("prod"), labelled("prod"), labelled("dev"), true},
		"selector matches the new labels": {selects("prod"), labelled("dev"), labelled("prod"), true},
		"deleted Cluster":                 {selects("prod"), labelled("prod"), nil, true},
		"invalid selector: no match":      {selects("a b"), labelled("dev"), labelled("a b"), false},
		"no selector: no match":           {nil, labelled("dev"), labelled("prod"), false},
		"empty selector: match":           {&metav1.LabelSelector{}, nil, member("a"), true},
	} {
		t.Run(name, func(t *testing.T) {
			group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "g", UID: "u-g"}}
			group.Spec.Selector = test.selector
			h := newHandler(t, group)
			h.onCluster(reconcile.Change[*fleet.Cluster]{Old: test.older, New: test.newer})
			if got := h.queue.Behind(); got != test.want {
				t.Errorf("enqueued = %v, want %v", got, test.want)
			}
		})
	}
}

// groupsWith returns groups whose selectors have this many values.
func groupsWith(values, groups int) (out []*fleet.ClusterGroup) {
	var list []string
	for i := range values {
		list = append(list, fmt.Sprintf("%x", i))
	}
	for i := range groups {
		group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: fmt.Sprint("g-", i), UID: types.UID(fmt.Sprint("u-", i))}}
		group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: list}}}
		out = append(out, group)
	}
	return out
}

func TestStatusOfAGroup_ParsesALargeSelectorOnce(t *testing.T) {
	group := groupsWith(180_000, 1)[0]
	h := newHandler(t, group)
	h.onCluster(reconcile.Change[*fleet.Cluster]{New: labelled("dev")})
	if got := testing.AllocsPerRun(1, func() { _, _ = h.gather(group) }); got > 1000 {
		t.Errorf("the pass takes %.0f allocations", got)
	}
	group = group.DeepCopy()
	group.Generation++
	group.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "not valid"}}
	if in, _ := h.gather(group); in.broken == nil {
		t.Error("the selector of an older generation is used")
	}
}

func TestLastGroupOfAWorkspace_LeavesNoSelector(t *testing.T) {
	groups := groupsWith(2000, 1)
	hub := hubtest.New(t)
	h := &handler{app: hub.App}
	hub.Put(groups[0])
	if _, err := h.app.GroupsIn("ws"); err != nil {
		t.Fatal(err)
	}
	hub.Remove(groups[0])
	h.onGroup(reconcile.Change[*fleet.ClusterGroup]{Old: groups[0]})
	if parsed := testing.AllocsPerRun(1, func() { _, _ = h.app.GroupSelector(groups[0]) }); parsed < 1000 {
		t.Errorf("the selector of the deleted group was kept: to get it takes %.0f allocations", parsed)
	}
}

func TestChangedCluster_ListsGroupsOnce(t *testing.T) {
	h := newHandler(t, groupsWith(1, 1000)...)
	other := labelled("0") // in none of the groups
	once := testing.AllocsPerRun(3, func() { h.onCluster(reconcile.Change[*fleet.Cluster]{New: other}) })
	relabelled := labelled("0")
	relabelled.Labels["a"] = "b"
	both := testing.AllocsPerRun(3, func() { h.onCluster(reconcile.Change[*fleet.Cluster]{Old: other, New: relabelled}) })
	if both > 1.5*once {
		t.Errorf("a changed Cluster takes %.0f allocations, a new one %.0f", both, once)
	}
}

func TestChangedCluster_ParsesLargeSelectorsOnce(t *testing.T) {
	h := newHandler(t, groupsWith(180_000, 10)...)
	change := reconcile.Change[*fleet.Cluster]{Old: labelled("dev"), New: labelled("prod")}
	if got := testing.AllocsPerRun(1, func() { h.onCluster(change) }); got > 1000 {
		t.Errorf("the second event takes %.0f allocations", got)
	}
	if !h.queue.Behind() {
		t.Error("no group is enqueued")
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
