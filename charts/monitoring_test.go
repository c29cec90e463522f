package charts_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// serviceMonitor is the part of a ServiceMonitor that docs/monitoring.md uses.
type serviceMonitor struct {
	Kind     string
	Metadata metav1.ObjectMeta
	Spec     struct {
		Selector  metav1.LabelSelector
		Endpoints []struct {
			Port        string
			HonorLabels bool
		}
	}
}

func TestDocumentedServiceMonitor_SelectsTheServicesOfTheChart(t *testing.T) {
	page, err := os.ReadFile("../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\napiVersion: monitoring.coreos.com/v1\n")
	example, _, _ := strings.Cut(rest, "```")
	var monitor serviceMonitor
	if err := yaml.UnmarshalStrict([]byte(example), &monitor); err != nil {
		t.Fatal(err)
	}
	if monitor.Kind != "ServiceMonitor" || len(monitor.Spec.Endpoints) != 1 {
		t.Fatalf("docs/monitoring.md: %+v", monitor)
	}
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	var selected []string
	for _, document := range strings.Split(mustRender(t, controllers("shards: [{id: a}]"))["service.yaml"], "\n---\n") {
		var service corev1.Service
		if err := yaml.Unmarshal([]byte(document), &service); err != nil {
			t.Fatal(err)
		}
		port := slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == monitor.Spec.Endpoints[0].Port })
		if selector.Matches(labels.Set(service.Labels)) && port && service.Namespace == monitor.Metadata.Namespace {
			selected = append(selected, service.Name)
		}
	}
	if want := []string{"monitoring-fleet-controller", "monitoring-fleet-controller-shard-a"}; !slices.Equal(selected, want) {
		t.Errorf("the ServiceMonitor of docs/monitoring.md selects %v, want %v", selected, want)
	}
}
