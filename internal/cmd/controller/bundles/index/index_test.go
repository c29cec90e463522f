package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestContentsOf(t *testing.T) {
	tests := map[string]struct {
		label, current, staged string
		want                   []string
	}{
		"the same three times is one":              {"s-1", "s-1:a", "s-1:a", []string{"s-1"}},
		"a change that is held back needs both":    {"s-2", "s-1:a", "s-2:b", []string{"s-2", "s-1"}},
		"a label nobody maintained counts as well": {"s-3", "s-1:a", "s-2:b", []string{"s-3", "s-1", "s-2"}},
		"a chart from elsewhere needs none":        {"", ":a", ":a", nil},
		"an ID without a hash":                     {"", "s-1", "", []string{"s-1"}},
		"nothing yet":                              {"", "", "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := &fleet.BundleDeployment{Spec: fleet.BundleDeploymentSpec{DeploymentID: test.current, StagedDeploymentID: test.staged}}
			bd.Labels = map[string]string{fleet.LabelContentName: test.label}
			if diff := cmp.Diff(test.want, ContentsOf(bd)); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwners(t *testing.T) {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "ws", fleet.LabelCluster: "one", fleet.LabelClusterNamespace: "other",
	}}}
	if got, want := BundleOf(bd), (types.NamespacedName{Namespace: "ws", Name: "web"}); got != want {
		t.Errorf("bundle = %s, want %s", got, want)
	}
	if got, want := ClusterOf(bd), (types.NamespacedName{Namespace: "other", Name: "one"}); got != want {
		t.Errorf("cluster = %s, want %s", got, want)
	}
}
