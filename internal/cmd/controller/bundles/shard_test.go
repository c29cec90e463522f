package bundles_test

import (
	"log/slog"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestShard_ReconcilesOnlyItsBundles runs a shard beside the controllers of all other tests, which belong to no
// shard.
func TestShard_ReconcilesOnlyItsBundles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg, err := account()
	must(t, err)
	a, err := hub.New(t.Context(), hub.Options{
		Own: kube.Own{Config: cfg}, Env: env.Controller{Namespace: system, Shard: "a"}, Version: version.Version, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	must(t, bundles.Register(t.Context(), a))

	// Before the shard runs, its objects are not reconciled.
	sharded := func(b *fleet.Bundle) { b.Labels = map[string]string{fleet.LabelShardRef: "a"} }
	w.cluster(t, "one", map[string]string{"n": "1", fleet.LabelShardRef: "b"})
	w.bundle(t, "web", to("one"), values("n", "${ .ClusterLabels.n }"), sharded)
	w.bundle(t, "db", to("one"))
	w.deployment(t, "db", "one", "that of no shard", exists)
	w.bundleThat(t, "db", "its status", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/1" })
	w.expectNone(t, "web", "one")

	must(t, a.Start(t.Context()))
	bd := w.deployment(t, "web", "one", "that of the shard", exists)
	if bd.Labels[fleet.LabelShardRef] != "a" {
		t.Errorf("labels = %v, want the shard's", bd.Labels)
	}
	w.bundleThat(t, "web", "its status", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/1" })
	w.report(t, bd, nil)
	w.deployment(t, "web", "one", "its state", func(bd *fleet.BundleDeployment) bool { return bd.Status.Display.State == "Ready" })

	// A cluster of another shard, or of none, wakes the Bundles of all.
	w.label(t, client.Clusters, "one", "n", "2")
	bd = w.deployment(t, "web", "one", "the new value", hasValues(`{"n":2}`))

	// The process of the new shard continues from the current state.
	w.label(t, client.Bundles, "web", fleet.LabelShardRef, nil)
	after := w.deployment(t, "web", "one", "the label that follows", func(bd *fleet.BundleDeployment) bool { return bd.Labels[fleet.LabelShardRef] == "" })
	if after.UID != bd.UID || after.Spec.DeploymentID != bd.Spec.DeploymentID {
		t.Errorf("it was deployed again: %+v", after.Spec)
	}
}
