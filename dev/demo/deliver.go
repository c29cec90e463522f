package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// deliver creates the same two Bundles in both workspaces and waits until all clusters report them as ready.
func (d *demo) deliver(ctx context.Context) error {
	for _, namespace := range []string{framework.LocalWorkspace, framework.Workspace} {
		for _, bundle := range []*fleet.Bundle{chartBundle(namespace, "0.1.0"), manifestBundle(namespace)} {
			if err := d.world.Hub.Create(ctx, client.Bundles, bundle); err != nil {
				return err
			}
		}
	}
	for i := range d.rows {
		r := &d.rows[i]
		cluster, err := d.world.Ready(ctx, r.cluster, 2)
		if err != nil {
			return err
		}
		r.BundlesReady = cluster.Status.Display.ReadyBundles
	}
	return nil
}

func everywhere() []fleet.BundleTarget {
	return []fleet.BundleTarget{{Name: "everywhere", ClusterSelector: &metav1.LabelSelector{}}}
}

// chartName is the name of the Bundle that rollOut changes.
const chartName = "chart"

// chartBundle returns a Bundle with a Helm chart. The chart writes the cluster's name into a ConfigMap.
func chartBundle(namespace, version string) *fleet.Bundle {
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: chartName},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				DefaultNamespace: "demo-chart",
				Helm:             &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"cluster": "${ .ClusterName }", "greeting": common}}},
			},
			Resources: []fleet.BundleResource{
				{Name: "Chart.yaml", Content: "apiVersion: v2\nname: hello\nversion: " + version + "\n"},
				{Name: "values.yaml", Content: "greeting: none\ncluster: none\n"},
				{Name: "templates/greeting.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: greeting\ndata:\n" +
					"  greeting: {{ .Values.greeting | quote }}\n  cluster: {{ .Values.cluster | quote }}\n"},
			},
			Targets: everywhere(),
		},
	}
}

// manifestBundle returns a Bundle with plain YAML: a ConfigMap and a Deployment.
func manifestBundle(namespace string) *fleet.Bundle {
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "manifests"},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: "demo-manifests"},
			Resources: []fleet.BundleResource{
				{Name: "config.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  color: green\n"},
				{Name: "deployment.yaml", Content: "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 2\n" +
					"  selector:\n    matchLabels: {app: web}\n  template:\n    metadata:\n      labels: {app: web}\n" +
					"    spec:\n      containers:\n      - name: web\n        image: example.com/web:1\n"},
			},
			Targets: everywhere(),
		},
	}
}
