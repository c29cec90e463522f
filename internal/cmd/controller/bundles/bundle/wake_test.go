package bundle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestBundleMatters(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.Bundle)
		want   bool
	}{
		"nothing":           {func(*fleet.Bundle) {}, false},
		"the status":        {func(b *fleet.Bundle) { b.Status.Unavailable = 1 }, false},
		"our finalizer":     {func(b *fleet.Bundle) { b.Finalizers = []string{fleet.FinalizerBundle} }, false},
		"the spec":          {func(b *fleet.Bundle) { b.Generation++ }, true},
		"a label":           {func(b *fleet.Bundle) { b.Labels = map[string]string{"a": "b"} }, true},
		"an annotation":     {func(b *fleet.Bundle) { b.Annotations = map[string]string{"a": "b"} }, true},
		"its deletion":      {func(b *fleet.Bundle) { b.DeletionTimestamp = &metav1.Time{} }, true},
		"another of a name": {func(b *fleet.Bundle) { b.UID = "other" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			older, newer := bundle(), bundle()
			test.change(newer)
			if got := bundleMatters(older, newer); got != test.want {
				t.Errorf("matters = %v, want %v", got, test.want)
			}
		})
	}
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
		"another of a name":   {func(c *fleet.Cluster) { c.UID = "other" }, true},
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
func TestWhoWakesABundle(t *testing.T) {
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
	relabelled := func(d *delivery, env string) {
		older, newer := cluster(nameOf(0)), cluster(nameOf(0))
		older.Labels, newer.Labels = map[string]string{"env": "dev"}, map[string]string{"env": env}
		d.hub.Put(newer)
		d.onCluster(queue.Change[*fleet.Cluster]{Old: older, New: newer})
	}
	grouped := func(d *delivery) {
		d.onGroup(queue.Change[*fleet.ClusterGroup]{New: &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "prod"}}})
	}
	tests := map[string]struct {
		bundle []func(*fleet.Bundle)
		change func(*delivery)
		want   bool
	}{
		"a cluster leaves what it is about to get":   {[]func(*fleet.Bundle){to(map[string]string{"env": "dev"})}, func(d *delivery) { relabelled(d, "prod") }, true},
		"a cluster comes":                            {[]func(*fleet.Bundle){to(map[string]string{"env": "prod"})}, func(d *delivery) { relabelled(d, "prod") }, true},
		"a cluster that neither leaves nor comes":    {[]func(*fleet.Bundle){to(map[string]string{"env": "test"})}, func(d *delivery) { relabelled(d, "prod") }, false},
		"a cluster is gone":                          {[]func(*fleet.Bundle){everywhere}, func(d *delivery) { d.onCluster(queue.Change[*fleet.Cluster]{Old: cluster(nameOf(0))}) }, true},
		"a group that a partition names":             {[]func(*fleet.Bundle){everywhere, partitioned(fleet.Partition{ClusterGroup: "prod"})}, grouped, true},
		"a group that a partition selects":           {[]func(*fleet.Bundle){everywhere, partitioned(fleet.Partition{ClusterGroupSelector: &metav1.LabelSelector{}})}, grouped, true},
		"a group, and partitions by other means":     {[]func(*fleet.Bundle){everywhere, partitioned(fleet.Partition{ClusterName: "one"})}, grouped, false},
		"a group, and a Bundle that asks for no one": {[]func(*fleet.Bundle){everywhere}, grouped, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(test.bundle...), 1)
			test.change(d)
			if got := d.queue.Behind(); got != test.want {
				t.Errorf("woken: %v", got)
			}
		})
	}
}
