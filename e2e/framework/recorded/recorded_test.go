package recorded_test

import (
	"slices"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestObjects_AreReadInOrder(t *testing.T) {
	var names []string
	for _, cluster := range recorded.Objects[fleet.Cluster](t, "clusters") {
		names = append(names, cluster.Namespace+"/"+cluster.Name)
	}
	want := []string{"fleet-default/cluster-3f8a81b9896a", "fleet-default/east", "fleet-local/local"}
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("recorded Clusters are %v, want %v", names, want)
	}
}
