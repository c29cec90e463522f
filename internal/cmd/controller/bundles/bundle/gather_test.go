package bundle

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/apptest"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The Bundle of an agent looks at its own cluster only; one that is not as it should be at all, as others do.
func TestClustersFor(t *testing.T) {
	ofAgent := func(name string, targets ...string) *fleet.Bundle {
		b := bundle()
		b.Name, b.Annotations = name, map[string]string{fleet.AnnotationSetID: names.AgentBundleSet}
		for _, target := range targets {
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterName: target})
		}
		return b
	}
	users := ofAgent(names.AgentBundle("two"), "two")
	users.Annotations = nil
	all := []string{"one", "three", "two"}
	for name, test := range map[string]struct {
		bundle *fleet.Bundle
		want   []string
	}{
		"that of an agent":                                       {ofAgent(names.AgentBundle("two"), "two"), []string{"two"}},
		"one whose second target names it":                       {ofAgent(names.AgentBundle("two"), "one", "two"), []string{"two"}},
		"one that names another":                                 {ofAgent(names.AgentBundle("two"), "one"), all},
		"one that names a cluster by the name it has for people": {ofAgent(names.AgentBundle("two"), "Zwei"), all},
		"one without targets":                                    {ofAgent(names.AgentBundle("two")), all},
		"one called like an agent's":                             {users, all},
	} {
		t.Run(name, func(t *testing.T) {
			hub := apptest.New(t)
			for _, c := range all {
				hub.Put(cluster(c))
			}
			hub.Put(cluster("two", func(c *fleet.Cluster) { c.Namespace = "elsewhere" }))
			h := &handler{app: hub.App}
			found, err := h.clustersFor(test.bundle, cluster("two").Namespace)
			var got []string
			for _, c := range found {
				got = append(got, c.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("clusters (-want +got), %v:\n%s", err, diff)
			}
		})
	}
}
