package affected

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var gone = metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))

func bundle(modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web", UID: "u-web"}}
	for _, modify := range modifiers {
		modify(b)
	}
	return b
}

func cluster(name string) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: map[string]string{"n": name}}}
	c.Status.Namespace = "c-" + name
	return c
}

func everywhere(b *fleet.Bundle) {
	b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
}

// watched is a Watcher on an API server in memory, with one Cluster.
type watched struct {
	*Watcher
	hub   *hubtest.Hub
	woken []types.NamespacedName
}

func newWatched(t *testing.T, bundle *fleet.Bundle) *watched {
	t.Helper()
	w := &watched{hub: hubtest.New(t)}
	index.Add(w.hub.App)
	w.hub.Put(bundle, cluster("one"))
	w.Watcher = New(w.hub.App, func(b *fleet.Bundle) *targeting.Selection {
		selection, err := targeting.NewSelection(b)
		if err != nil {
			t.Error(err)
		}
		return selection
	}, func(bundle types.NamespacedName) { w.woken = append(w.woken, bundle) })
	return w
}

func TestClusterMatters(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.Cluster)
		want   bool
	}{
		"nothing":             {func(*fleet.Cluster) {}, false},
		"a heartbeat":         {func(c *fleet.Cluster) { c.Status.Agent.LastSeen = gone }, false},
		"a summary":           {func(c *fleet.Cluster) { c.Status.Summary.Ready = 1 }, false},
		"the agent's setting": {func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration = 1 }, false},
		"a label":             {func(c *fleet.Cluster) { c.Labels["a"] = "b" }, true},
		"an annotation":       {func(c *fleet.Cluster) { c.Annotations = map[string]string{"a": "b"} }, true},
		"its namespace":       {func(c *fleet.Cluster) { c.Status.Namespace = "other" }, true},
		"a pause":             {func(c *fleet.Cluster) { c.Spec.Paused = true }, true},
		"its values":          {func(c *fleet.Cluster) { c.Spec.TemplateValues = &fleet.GenericMap{Data: map[string]any{"a": 1}} }, true},
		"a Schedule":          {func(c *fleet.Cluster) { c.Status.Scheduled = true }, true},
		"a Schedule's window": {func(c *fleet.Cluster) { c.Status.ActiveSchedule = true }, true},
		"its deletion":        {func(c *fleet.Cluster) { c.DeletionTimestamp = &gone }, true},
		"a recreated object":  {func(c *fleet.Cluster) { c.UID = "other" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			older, newer := cluster("one"), cluster("one")
			test.change(newer)
			if got := clusterMatters(older, newer); got != test.want {
				t.Errorf("matters = %v, want %v", got, test.want)
			}
		})
	}
}

// A cluster that is relabelled, or a group that comes, while nothing is deployed there yet.
func TestWatch_EnqueuesAffectedBundles(t *testing.T) {
	to := func(labels map[string]string) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) {
			b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: labels}}}
		}
	}
	partitioned := func(p fleet.Partition) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) {
			b.Spec.RolloutStrategy = &fleet.RolloutStrategy{Partitions: []fleet.Partition{p}}
		}
	}
	relabelled := func(w *watched, env string) {
		older, newer := cluster("one"), cluster("one")
		older.Labels, newer.Labels = map[string]string{"env": "dev"}, map[string]string{"env": env}
		w.hub.Put(newer)
		w.onCluster(reconcile.Change[*fleet.Cluster]{Old: older, New: newer})
	}
	grouped := func(w *watched) {
		w.onGroup(reconcile.Change[*fleet.ClusterGroup]{New: &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "prod"}}})
	}
	resumed := func(w *watched) {
		older, newer := cluster("one"), cluster("one")
		newer.Status.Namespace = names.ClusterNamespace("ws", "one")
		older.Status, older.Spec.Paused = newer.Status, true
		bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: newer.Status.Namespace, Name: "web", Labels: map[string]string{
			fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "ws", fleet.LabelCluster: "one", fleet.LabelClusterNamespace: "ws",
		}}}
		w.hub.Put(bd)
		w.onCluster(reconcile.Change[*fleet.Cluster]{Old: older, New: newer})
	}
	naming := func(b *fleet.Bundle) {
		b.Spec.Targets = []fleet.BundleTarget{{ClusterName: "one", ClusterGroup: "none"}} // it selects no cluster
	}
	tests := map[string]struct {
		bundle []func(*fleet.Bundle)
		change func(*watched)
		want   bool
	}{
		"a cluster leaves the targets before it is deployed": {[]func(*fleet.Bundle){to(map[string]string{"env": "dev"})}, func(w *watched) { relabelled(w, "prod") }, true},
		"a new cluster":                                {[]func(*fleet.Bundle){to(map[string]string{"env": "prod"})}, func(w *watched) { relabelled(w, "prod") }, true},
		"a cluster whose targets do not change":        {[]func(*fleet.Bundle){to(map[string]string{"env": "test"})}, func(w *watched) { relabelled(w, "prod") }, false},
		"a deleted cluster":                            {[]func(*fleet.Bundle){everywhere}, func(w *watched) { w.onCluster(reconcile.Change[*fleet.Cluster]{Old: cluster("one")}) }, true},
		"a cluster resumes that is no longer a target": {[]func(*fleet.Bundle){to(map[string]string{"env": "test"})}, resumed, true},
		"a cluster that a target names":                {[]func(*fleet.Bundle){naming}, func(w *watched) { relabelled(w, "prod") }, true},
		"a group that a partition names":               {[]func(*fleet.Bundle){everywhere, partitioned(fleet.Partition{ClusterGroup: "prod"})}, grouped, true},
		"a group that a partition selects":             {[]func(*fleet.Bundle){everywhere, partitioned(fleet.Partition{ClusterGroupSelector: &metav1.LabelSelector{}})}, grouped, true},
		"a group, partitions without groups":           {[]func(*fleet.Bundle){everywhere, partitioned(fleet.Partition{ClusterName: "one"})}, grouped, false},
		"a group, a Bundle without groups":             {[]func(*fleet.Bundle){everywhere}, grouped, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, bundle(test.bundle...))
			test.change(w)
			if got := len(w.woken) > 0; got != test.want {
				t.Errorf("woken: %v", got)
			}
		})
	}
}

// The changes of the Clusters of all workspaces are handled one after another: a Bundle that is too expensive to check is
// enqueued instead, because its pass keeps only workers of its own workspace.
func TestExpensiveBundles_AreEnqueuedWithoutACheck(t *testing.T) {
	tests := map[string]struct {
		targets, values, groups int
		want                    bool
	}{
		"few targets and groups: is checked":                 {200, 1, 200, false},
		"many targets and groups: is enqueued":               {1500, 1, 1500, true},
		"many targets and one group: is checked":             {1500, 1, 1, false},
		"targets with many values, many groups: is enqueued": {2, 2000, 1500, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			others := make([]string, test.values)
			for i := range others {
				others[i] = fmt.Sprint("other-", i)
			}
			w := newWatched(t, bundle(func(b *fleet.Bundle) {
				for range test.targets { // none of which selects the cluster
					b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{
						ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
							{Key: "n", Operator: metav1.LabelSelectorOpNotIn, Values: append([]string{"one"}, others...)},
						}},
						ClusterGroupSelector: &metav1.LabelSelector{},
					})
				}
			}))
			for i := range test.groups {
				group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: fmt.Sprint("g-", i)}}
				group.Spec.Selector = &metav1.LabelSelector{}
				w.hub.Put(group)
			}
			w.onCluster(reconcile.Change[*fleet.Cluster]{New: cluster("one")})
			if got := len(w.woken) > 0; got != test.want {
				t.Errorf("enqueued: %v, want %v", got, test.want)
			}
		})
	}
}

func TestChangedCluster_ParsesLargeSelectorsOnce(t *testing.T) {
	var values []string
	for i := range 180_000 {
		values = append(values, fmt.Sprintf("%x", i))
	}
	w := newWatched(t, bundle(everywhere))
	for i := range 10 {
		group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: fmt.Sprint("g-", i), UID: types.UID(fmt.Sprint("u-", i))}}
		group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "n", Operator: metav1.LabelSelectorOpNotIn, Values: values}}}
		w.hub.Put(group)
	}
	change := reconcile.Change[*fleet.Cluster]{Old: cluster("one"), New: cluster("two")}
	if got := testing.AllocsPerRun(1, func() { w.onCluster(change) }); got > 1000 {
		t.Errorf("the second event takes %.0f allocations", got)
	}
	if len(w.woken) == 0 {
		t.Error("no Bundle is enqueued")
	}
}

// Whether a Bundle depends on itself may depend on the labels of another one.
func TestDependencies_EnqueueBundlesOfAPossibleCycle(t *testing.T) {
	on := func(refs ...fleet.BundleRef) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) { b.Spec.DependsOn = refs }
	}
	app := func(name string) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) { b.Labels = map[string]string{"app": name} }
	}
	db := func(modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
		return bundle(append([]func(*fleet.Bundle){func(b *fleet.Bundle) { b.Name, b.UID = "db", "u-db" }}, modifiers...)...)
	}
	byName, byLabel := on(fleet.BundleRef{Name: "db"}), on(fleet.BundleRef{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}})
	back := on(fleet.BundleRef{Name: "web"})
	tests := map[string]struct {
		web          func(*fleet.Bundle)
		older, newer *fleet.Bundle
		want         bool
	}{
		"its dependencies change":                      {byName, db(), db(back), true},
		"it is new":                                    {byName, nil, db(back), true},
		"it is deleted":                                {byName, db(back), nil, true},
		"nothing changes":                              {byLabel, db(back), db(back), false},
		"others depend on its new label":               {byLabel, db(back), db(back, app("db")), true},
		"others depended on its old label":             {byLabel, db(back, app("db")), db(back), true},
		"others depend on no labels":                   {byName, db(back), db(back, app("db")), false},
		"a label that no agent sees":                   {byLabel, db(back), db(back, func(b *fleet.Bundle) { b.Labels = map[string]string{"x.cattle.io/a": "b"} }), false},
		"a Bundle without dependencies is in no cycle": {byLabel, db(), db(app("db")), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, bundle(test.web))
			w.onDependencies(reconcile.Change[*fleet.Bundle]{Old: test.older, New: test.newer})
			if got := slices.Contains(w.woken, types.NamespacedName{Namespace: "ws", Name: "web"}); got != test.want {
				t.Errorf("enqueued: %v", got)
			}
		})
	}
}
