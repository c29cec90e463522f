package bundles

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestTenObjects_HaveTheirNamesAndLabel(t *testing.T) {
	kinds := map[string]int{}
	for i, file := range TenObjects("b") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(file.Content), &object); err != nil {
			t.Fatalf("%v\n%s", err, file.Content)
		}
		if object.Name != ObjectNames("b")[i] || object.Labels[Label] != "b" || file.Name != object.Name+".yaml" {
			t.Errorf("%s: %s, %v", file.Name, object.Name, object.Labels)
		}
		kinds[object.APIVersion+" "+object.Kind]++
	}
	want := map[string]int{"v1 ConfigMap": 6, "v1 ServiceAccount": 2, "v1 Service": 1, "apps/v1 Deployment": 1}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLargeChart_IsReproducible checks the size of the large chart, and that it is always the same.
func TestLargeChart_IsReproducible(t *testing.T) {
	files := LargeChart()
	if diff := cmp.Diff(files, LargeChart()); diff != "" {
		t.Errorf("the second chart differs:\n%s", diff)
	}
	packed, unpacked := 0, 0
	for _, file := range files {
		text, err := content.Data(file, content.MaxSize)
		if err != nil {
			t.Fatal(err)
		}
		packed, unpacked = packed+len(file.Content)*3/4, unpacked+len(text)
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(text, &object); err != nil {
			t.Errorf("%s: %v", file.Name, err)
		}
	}
	t.Logf("%d KiB packed", packed>>10)
	if packed < largePacked*9/10 || packed > largePacked*11/10 || unpacked < largeSize || unpacked > largeSize*11/10 {
		t.Errorf("%d KiB packed, %d KiB unpacked", packed>>10, unpacked>>10)
	}
}

func TestIsReady_RequiresAllClusters(t *testing.T) {
	ready := func(changes ...func(*fleet.Bundle)) *fleet.Bundle {
		b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		b.Status.ObservedGeneration = 2
		b.Status.Summary = fleet.BundleSummary{DesiredReady: 3, Ready: 3}
		b.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Ready, Status: corev1.ConditionTrue}}
		for _, change := range changes {
			change(b)
		}
		return b
	}
	tests := map[string]struct {
		bundle *fleet.Bundle
		want   bool
	}{
		"ready on all clusters: ready":             {ready(), true},
		"one cluster is not ready: not ready":      {ready(func(b *fleet.Bundle) { b.Status.Summary.Ready = 2 }), false},
		"too few clusters are targeted: not ready": {ready(func(b *fleet.Bundle) { b.Status.Summary = fleet.BundleSummary{DesiredReady: 2, Ready: 2} }), false},
		"generation is not observed: not ready":    {ready(func(b *fleet.Bundle) { b.Generation = 3 }), false},
		"no Ready condition: not ready":            {ready(func(b *fleet.Bundle) { b.Status.Conditions = nil }), false},
		"Ready is False: not ready":                {ready(func(b *fleet.Bundle) { b.Status.Conditions[0].Status = corev1.ConditionFalse }), false},
		"empty status: not ready":                  {&fleet.Bundle{}, false},
		"ready on more clusters: ready":            {ready(func(b *fleet.Bundle) { b.Status.Summary = fleet.BundleSummary{DesiredReady: 4, Ready: 4} }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsReadyOn(test.bundle, 3); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
