package targeting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// agentOf is the Bundle of a Cluster's agent, as manageagent makes it.
func agentOf(name string, modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
	b := targetingtest.Bundle(append([]func(*fleet.Bundle){func(b *fleet.Bundle) {
		b.Name = names.AgentBundle(name)
		b.Annotations = map[string]string{fleet.AnnotationSetID: names.AgentBundleSet}
		b.Spec.Targets = []fleet.BundleTarget{{
			ClusterName: name,
			ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: fleet.LabelNonManagedAgent, Operator: metav1.LabelSelectorOpDoesNotExist},
			}},
		}}
	}}, modifiers...)...)
	return b
}

func TestAgentBundle_TargetsOnlyItsCluster(t *testing.T) {
	long := "a-cluster-whose-name-is-so-long-that-the-name-of-its-bundle-is-cut"
	clusters := []*fleet.Cluster{
		targetingtest.Cluster("east"), targetingtest.Cluster("west"), targetingtest.Cluster(long),
		targetingtest.Cluster("c-12345", targetingtest.Labelled(fleet.LabelClusterDisplayName, "east")), // which its users call east
		targetingtest.Cluster("free", targetingtest.Labelled(fleet.LabelNonManagedAgent, "")),
	}
	tests := map[string]struct {
		in   *fleet.Bundle
		want []string
	}{
		"the Cluster it is named after":                       {agentOf("east"), []string{"east"}},
		"a Cluster with a long name":                          {agentOf(long), []string{long}},
		"a Cluster with the label for unmanaged agents: none": {agentOf("free"), nil},
		"targets all Clusters: only its own":                  {agentOf("west", func(b *fleet.Bundle) { b.Spec.Targets = nil }, targetingtest.Targets(targetingtest.Everywhere())), []string{"west"}},
		"a Cluster that does not exist: none":                 {agentOf("gone"), nil},
		"a user's Bundle of that name follows its targets": {
			agentOf("east", func(b *fleet.Bundle) { b.Annotations = nil }), []string{"c-12345", "east"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, target := range targetsOf(t, test.in, clusters) {
				got = append(got, target.Cluster.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			selection, err := NewSelection(test.in)
			if err != nil {
				t.Fatal(err)
			}
			var picked []string
			for _, c := range clusters {
				if selection.Picks(c, NewGroups(nil)) {
					picked = append(picked, c.Name)
				}
			}
			if len(picked) != len(got) {
				t.Errorf("picks %q, but goes to %q", picked, got)
			}
		})
	}
}
