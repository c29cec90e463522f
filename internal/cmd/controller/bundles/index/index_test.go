package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestContentsOf(t *testing.T) {
	tests := map[string]struct {
		label, current, staged string
		want                   []string
	}{
		"three equal IDs: one Content":  {"s-1", "s-1:a", "s-1:a", []string{"s-1"}},
		"staged change: both Contents":  {"s-2", "s-1:a", "s-2:b", []string{"s-2", "s-1"}},
		"outdated label: counts too":    {"s-3", "s-1:a", "s-2:b", []string{"s-3", "s-1", "s-2"}},
		"chart of another source: none": {"", ":a", ":a", nil},
		"an ID without a hash":          {"", "s-1", "", []string{"s-1"}},
		"no IDs: none":                  {"", "", "", nil},
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

func TestBundleOf(t *testing.T) {
	place := names.ClusterNamespace("other", "one")
	tests := map[string]struct {
		namespace, name string
		change          func(labels map[string]string)
		want            types.NamespacedName
	}{
		"created by the hub: its Bundle": {place, "web", nil, types.NamespacedName{Namespace: "ws", Name: "web"}},
		"in another namespace: none":     {"tenant", "web", nil, types.NamespacedName{}},
		"under another name: none":       {place, "db", nil, types.NamespacedName{}},
		"in a namespace of another Cluster: none": {
			names.ClusterNamespace("tenant", "one"), "web", nil, types.NamespacedName{},
		},
		"without the labels of its Cluster: none": {
			place, "web", func(labels map[string]string) { delete(labels, fleet.LabelCluster) }, types.NamespacedName{},
		},
		"without the labels of its Bundle: none": {
			place, "web", func(labels map[string]string) { delete(labels, fleet.LabelBundleName) }, types.NamespacedName{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: test.name, Labels: map[string]string{
				fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "ws", fleet.LabelCluster: "one", fleet.LabelClusterNamespace: "other",
			}}}
			if test.change != nil {
				test.change(bd.Labels)
			}
			if got := BundleOf(bd); got != test.want {
				t.Errorf("bundle = %s, want %s", got, test.want)
			}
			claimed := types.NamespacedName{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}
			if got := ClaimedBy(bd); got != claimed {
				t.Errorf("claimed = %s, want %s", got, claimed)
			}
			cluster := types.NamespacedName{Namespace: "other", Name: bd.Labels[fleet.LabelCluster]}
			if got := ClusterOf(bd); got != cluster {
				t.Errorf("cluster = %s, want %s", got, cluster)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	of := func(workspace string) *fleet.BundleDeployment {
		return &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{fleet.LabelClusterNamespace: workspace}}}
	}
	all := []*fleet.BundleDeployment{of("ws"), of("away")}
	if got := Within(targeting.Reach{Namespaces: []string{"ws"}}, all); len(got) != 1 || got[0] != all[0] {
		t.Errorf("within = %v", got)
	}
	if got := Within(targeting.Reach{Namespaces: []string{"ws"}, Unknown: targeting.ErrSelector}, all); len(got) != 2 {
		t.Errorf("within a reach that is not known = %v", got)
	}
}
