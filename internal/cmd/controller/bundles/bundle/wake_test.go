package bundle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
