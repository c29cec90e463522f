package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/e2e/bench/bundles"
	"github.com/fleet-hub/fleet/e2e/bench/hub"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// errUnsettled means that a Bundle or a Cluster is not ready.
var errUnsettled = errors.New("not everything is ready, but there are no more writes")

// benchLabels returns the labels of the measured clusters.
func benchLabels() map[string]string { return map[string]string{"bench": "true"} }

// deployed returns a Bundle for all measured clusters. Its values use the cluster's name and labels.
func deployed(name string) *fleet.Bundle {
	values := map[string]any{
		"replicas": 2, "image": map[string]any{"repository": "example.com/shop/web", "tag": "1.0.0"},
		"cluster": "${ .ClusterName }", "zone": "global.fleet.clusterLabels.bench",
	}
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name, Labels: map[string]string{"team": "bench"}},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				DefaultNamespace: bundles.Namespace, Helm: &fleet.HelmOptions{Values: &fleet.GenericMap{Data: values}},
			},
			Resources: bundles.TenObjects(name),
			Targets:   []fleet.BundleTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{MatchLabels: benchLabels()}}},
		},
	}
}

// addBundle creates one more Bundle.
func (b *bench) addBundle(ctx context.Context) error {
	name := fmt.Sprintf("bench-%03d", len(b.bundles))
	if err := b.World.Hub.Create(ctx, client.Bundles, deployed(name)); err != nil {
		return fmt.Errorf("creating Bundle %s: %w", name, err)
	}
	b.bundles = append(b.bundles, name)
	return nil
}

// bundlesUpTo creates Bundles until there are n, and waits until all are ready and there are no more writes.
func (b *bench) bundlesUpTo(ctx context.Context, n int) error {
	for len(b.bundles) < n {
		if err := b.addBundle(ctx); err != nil {
			return err
		}
	}
	return b.allReady(ctx, len(b.agents))
}

// changeBundle changes one value of a Bundle.
func (b *bench) changeBundle(ctx context.Context, name, tag string) error {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"helm": map[string]any{"values": map[string]any{
		"image": map[string]any{"tag": tag},
	}}}})
	if err != nil {
		return fmt.Errorf("encoding a change: %w", err)
	}
	return b.World.Hub.Patch(ctx, client.Bundles, framework.Workspace, name, body)
}

// allReady waits until every Bundle reports that it is ready on all clusters, and every Cluster that all its
// Bundles are.
func (b *bench) allReady(ctx context.Context, clusters int) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	for _, name := range b.bundles {
		_, err := client.Until(ctx, client.Await{
			From: b.Client.Fleet, Resource: client.Bundles, Namespace: framework.Workspace, Name: name, Within: b.patience,
			For: fmt.Sprintf("%s to be ready on %d clusters", name, clusters),
		}, func(bundle *fleet.Bundle) bool { return bundles.IsReadyOn(bundle, clusters) })
		if err != nil {
			return err
		}
	}
	var last error
	// Each check reads all Clusters, which uses a part of the machine. The times are taken from the audit log.
	err := hub.Every(ctx, max(time.Second, time.Duration(len(b.agents))*4*time.Millisecond), func() (bool, error) {
		last = b.unsettled(ctx)
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// unsettled returns an error if a Cluster does not report that all its Bundles are ready.
func (b *bench) unsettled(ctx context.Context) error {
	var list fleet.ClusterList
	err := b.Client.Fleet.Get().Namespace(framework.Workspace).Resource(client.Clusters).
		VersionedParams(&metav1.ListOptions{LabelSelector: labels.FormatLabels(benchLabels()), ResourceVersion: "0"}, metav1.ParameterCodec).
		Do(ctx).Into(&list)
	if err != nil {
		return fmt.Errorf("listing Clusters: %w", err)
	}
	for _, cluster := range list.Items {
		// The agent's own Bundle is included.
		if s := cluster.Status.Summary; s.Ready != s.DesiredReady || s.Ready != len(b.bundles)+1 {
			return fmt.Errorf("cluster %s has %d of %d Bundles ready: %w", cluster.Name, s.Ready, s.DesiredReady, errUnsettled)
		}
	}
	if len(list.Items) != len(b.agents) {
		return fmt.Errorf("found %d Clusters, want %d: %w", len(list.Items), len(b.agents), errUnsettled)
	}
	return nil
}
