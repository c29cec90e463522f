package bundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A missing group neither removes nor adds deployments.
func TestMissingClusterGroup_ChangesNothingForItsMembers(t *testing.T) {
	own := targeting.Reach{Namespaces: []string{"ws"}}
	const message = "spec.targets[0]: clusterGroup prod: there is no such ClusterGroup in ws; create it or name another: until then, what only it selects stays as it is, and clusters that another target selects follow that target"
	clusters := []*fleet.Cluster{cluster("one"), cluster("two")}
	both, away := targeting.Reach{Namespaces: []string{"away", "ws"}}, group("prod", nil)
	away.Namespace = "away"
	elsewhere := targeting.NewGroups([]*fleet.ClusterGroup{away})
	tests := map[string]struct {
		in      input
		unknown string
		writes  []string
		orphans []string
	}{
		"existing deployment: stays": {
			input{bundle: bundle(toGroup("prod")), reach: own, clusters: clusters, existing: []*fleet.BundleDeployment{existing("one")}},
			message, nil, nil,
		},
		"other targets: continue": {
			input{bundle: bundle(toGroup("prod"), toCluster("two")), reach: own, clusters: clusters, existing: []*fleet.BundleDeployment{existing("one"), existing("two")}},
			message, []string{"update c-two"}, nil,
		},
		"another target selects a member: that target applies": {
			input{bundle: bundle(toGroup("prod"), toCluster("one")), reach: own, clusters: clusters, existing: []*fleet.BundleDeployment{existing("one")}},
			message, []string{"update c-one"}, nil,
		},
		"cluster excluded by other criteria: deleted": {
			input{bundle: bundle(toGroup("prod"), func(b *fleet.Bundle) { b.Spec.Targets[0].ClusterName = "two" }), reach: own, clusters: clusters,
				existing: []*fleet.BundleDeployment{existing("one")}},
			message, nil, []string{"c-one"},
		},
		"invalid mapping: deployments in its own workspace stay": {
			input{bundle: bundle(toGroup("prod")), reach: brokenReach(), clusters: clusters, existing: []*fleet.BundleDeployment{existing("one")}},
			"", nil, nil,
		},
		"group of that name in another workspace: stays": {
			input{bundle: bundle(toGroup("prod")), reach: both, groups: elsewhere, clusters: clusters, existing: []*fleet.BundleDeployment{existing("one")}},
			message, nil, nil,
		},
		"group of that name in another workspace, no deployments": {
			input{bundle: bundle(toGroup("prod"), toCluster("one")), reach: both, groups: elsewhere, clusters: clusters, existing: []*fleet.BundleDeployment{existing("one")}},
			"", []string{"update c-one"}, nil,
		},
		"existing group without members: deleted": {
			input{bundle: bundle(toGroup("prod")), reach: own, groups: targeting.NewGroups([]*fleet.ClusterGroup{group("prod", nil)}), clusters: clusters,
				existing: []*fleet.BundleDeployment{existing("one")}},
			"", nil, []string{"c-one"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := inWords(firstRound(test.in))
			if got.Outcome.Unknown != test.unknown {
				t.Errorf("it says %q, want %q", got.Outcome.Unknown, test.unknown)
			}
			if diff := cmp.Diff(test.writes, got.Writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.orphans, got.Orphans); diff != "" {
				t.Errorf("orphans (-want +got):\n%s", diff)
			}
		})
	}
}
