package e2e

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// greeting returns a plain YAML Bundle for all clusters of its workspace: a ConfigMap with the Bundle's name, in
// a namespace with that name.
func greeting(workspace, name, text string) *fleet.Bundle {
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: name},
			Resources: []fleet.BundleResource{{
				Name: "greeting.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  text: " + text + "\n",
			}},
			Targets: []fleet.BundleTarget{{Name: "everywhere", ClusterSelector: &metav1.LabelSelector{}}},
		},
	}
}

// only limits a Bundle to the clusters with these labels.
func only(bundle *fleet.Bundle, labels map[string]string) *fleet.Bundle {
	bundle.Spec.Targets[0].ClusterSelector.MatchLabels = labels
	return bundle
}

// chart turns the Bundle into a Helm chart that contains the name of its cluster.
func chart(bundle *fleet.Bundle, values map[string]any) *fleet.Bundle {
	bundle.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: values}}
	bundle.Spec.Resources = []fleet.BundleResource{
		{Name: "Chart.yaml", Content: "apiVersion: v2\nname: greeting\nversion: 0.1.0\n"},
		{Name: "values.yaml", Content: "text: nothing\n"},
		{Name: "templates/greeting.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + bundle.Name + "\ndata:\n  text: {{ .Values.text | quote }}\n"},
	}
	return bundle
}

func says(text string) func(*corev1.ConfigMap) bool {
	return func(c *corev1.ConfigMap) bool { return c.Data["text"] == text }
}
