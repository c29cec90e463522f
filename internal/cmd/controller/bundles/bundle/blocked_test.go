package bundle

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

var resembling = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}}}

const resembles = `invalid label selector: "Resembles" is not a valid label selector operator; correct that selector: until then, what depends on it stays as it is`

func group(name string, selector *metav1.LabelSelector) *fleet.ClusterGroup {
	return &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}, Spec: fleet.ClusterGroupSpec{Selector: selector}}
}

func toGroup(name string) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterGroup: name})
	}
}

func toCluster(name string) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterName: name})
	}
}

func within(workspace string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Namespace = workspace }
}

func ofWorkspace(workspace string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelClusterNamespace] = workspace }
}

// brokenReach is that of a Bundle with a mapping that does not parse, where these workspaces accept no Bundles of others.
func brokenReach(closed ...string) targeting.Reach {
	namespaces := []*corev1.Namespace{}
	for _, name := range closed {
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{annotation.AcceptBundlesFrom: "none"},
		}})
	}
	return targeting.NewReach(bundle(), []targeting.Mapping{targeting.NewMapping(&fleet.BundleNamespaceMapping{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "m"}, BundleSelector: &metav1.LabelSelector{}, NamespaceSelector: resembling,
	})}, namespaces)
}

func TestBrokenSelector_HoldsDeployments(t *testing.T) {
	own := targeting.Reach{Namespaces: []string{"ws"}}
	target := func(workspace, name string) selection.Target {
		return selection.Target{Cluster: types.NamespacedName{Namespace: workspace, Name: name}, Namespace: "c-" + name}
	}
	broken := targeting.NewGroups([]*fleet.ClusterGroup{group("prod", resembling)})
	byGroup := "targeting error: ClusterGroup prod: selector: " + resembles
	byMapping := "targeting error: BundleNamespaceMapping m: namespaceSelector: " + resembles
	tests := map[string]struct {
		in   input
		want told
	}{
		"invalid group: deployments stay, no new ones": {
			input{bundle: bundle(toGroup("prod")), reach: own, groups: broken, clusters: []*fleet.Cluster{cluster("one"), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one")}},
			told{Outcome: selection.Outcome{Blocked: byGroup, Targets: []selection.Target{target("ws", "one")}}},
		},
		"invalid group: other clusters continue": {
			input{bundle: bundle(toCluster("two"), toGroup("prod")), reach: own, groups: broken, clusters: []*fleet.Cluster{cluster("one"), cluster("two"), cluster("three")},
				existing: []*fleet.BundleDeployment{existing("three"), existing("one"), existing("two")}},
			told{
				Writes: []string{"update c-two"}, Content: true,
				Outcome: selection.Outcome{Blocked: byGroup, Targets: []selection.Target{target("ws", "one"), target("ws", "three"), target("ws", "two")}},
			},
		},
		"invalid group: other Bundles continue": {
			input{bundle: bundle(toCluster("two")), reach: own, groups: broken, clusters: []*fleet.Cluster{cluster("one"), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one")}},
			told{Writes: []string{"create c-two"}, Orphans: []string{"c-one"}, Content: true, Outcome: selection.Outcome{Targets: []selection.Target{target("ws", "two")}}},
		},
		"invalid group, no clusters: no effect": {
			input{bundle: bundle(toGroup("prod")), reach: own, groups: broken, existing: []*fleet.BundleDeployment{existing("gone")}},
			told{Orphans: []string{"c-gone"}},
		},
		"invalid group, cluster is being deleted: no effect": {
			input{bundle: bundle(toGroup("prod")), reach: own, groups: broken, clusters: []*fleet.Cluster{cluster("one", leaving)},
				existing: []*fleet.BundleDeployment{existing("one")}},
			told{},
		},
		"invalid group, deployment is being deleted: not held": {
			input{bundle: bundle(toGroup("prod")), reach: own, groups: broken, clusters: []*fleet.Cluster{cluster("one")},
				existing: []*fleet.BundleDeployment{existing("one", deleted)}},
			told{Outcome: selection.Outcome{Blocked: byGroup}},
		},
		"invalid mapping: deployments of other workspaces stay": {
			input{bundle: bundle(everywhere), reach: brokenReach(), clusters: []*fleet.Cluster{cluster("one")},
				existing: []*fleet.BundleDeployment{existing("far", ofWorkspace("away"))}},
			told{Writes: []string{"create c-one"}, Content: true, Outcome: selection.Outcome{Blocked: byMapping, Targets: []selection.Target{target("away", "far"), target("ws", "one")}}},
		},
		"invalid mapping, workspace refuses the Bundle: deleted": {
			input{bundle: bundle(everywhere), reach: brokenReach("away"), existing: []*fleet.BundleDeployment{existing("far", ofWorkspace("away"))}},
			told{Orphans: []string{"c-far"}, Outcome: selection.Outcome{Blocked: byMapping}},
		},
		"invalid mapping, no target in its own workspace: deleted": {
			input{bundle: bundle(everywhere), reach: brokenReach(), existing: []*fleet.BundleDeployment{existing("two")}},
			told{Orphans: []string{"c-two"}, Outcome: selection.Outcome{Blocked: byMapping}},
		},
		"no mapping: deployments of other workspaces are deleted": {
			input{bundle: bundle(everywhere), reach: own, existing: []*fleet.BundleDeployment{existing("far", ofWorkspace("away"))}},
			told{Orphans: []string{"c-far"}},
		},
		"mapped cluster: deployed": {
			input{bundle: bundle(everywhere), reach: targeting.Reach{Namespaces: []string{"away", "ws"}}, clusters: []*fleet.Cluster{cluster("far", within("away")), cluster("one")},
				existing: []*fleet.BundleDeployment{existing("far", ofWorkspace("away"))}},
			told{Writes: []string{"update c-far", "create c-one"}, Content: true, Outcome: selection.Outcome{Targets: []selection.Target{target("away", "far"), target("ws", "one")}}},
		},
		"invalid group and mapping: the mapping is reported, because it concerns more": {
			input{bundle: bundle(toGroup("prod")), reach: brokenReach(), groups: broken, clusters: []*fleet.Cluster{cluster("one")}},
			told{Outcome: selection.Outcome{Blocked: byMapping}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in.manifestHash = content.Manifest{}.SHA256()
			test.want.Outcome.Generation, test.want.Outcome.ManifestHash = 3, test.in.manifestHash
			random := rand.New(rand.NewSource(13))
			for range 5 { // in any order
				shuffle(random, test.in.clusters)
				shuffle(random, test.in.existing)
				if diff := cmp.Diff(test.want, inWords(firstRound(test.in))); diff != "" {
					t.Fatalf("plan (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// What is held counts, and so the limit is a share of it, too: else one cluster that is held kept all others from a change.
func TestHeldDeployment_LeavesRoom(t *testing.T) {
	notReady := func(bd *fleet.BundleDeployment) { bd.Status.Ready = false }
	one := intstr.FromInt32(1)
	tests := map[string]struct {
		strategy    *fleet.RolloutStrategy
		unreachable map[types.NamespacedName]bool
		want        rollout.Action
	}{
		"without a limit":      {nil, nil, rollout.Promote},
		"limit is used up":     {&fleet.RolloutStrategy{MaxUnavailable: &one}, nil, rollout.Stage},
		"held cluster reports": {&fleet.RolloutStrategy{MaxUnavailable: &one}, map[types.NamespacedName]bool{{Namespace: "ws", Name: "one"}: true}, rollout.Promote},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := input{
				bundle: bundle(toCluster("two"), toGroup("prod"), func(b *fleet.Bundle) { b.Spec.RolloutStrategy = test.strategy }),
				reach:  targeting.Reach{Namespaces: []string{"ws"}}, groups: targeting.NewGroups([]*fleet.ClusterGroup{group("prod", resembling)}),
				clusters: []*fleet.Cluster{cluster("one"), cluster("two")}, existing: []*fleet.BundleDeployment{existing("one", older, notReady), existing("two", older)},
				unreachable: test.unreachable,
			}
			decision := newRound(in, in.selected()).decision
			if got := decision.Actions[0]; got != test.want {
				t.Errorf("action %v, want %v: %v", got, test.want, decision.Waits)
			}
		})
	}
}

func shuffle[T any](random *rand.Rand, items []T) {
	random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
}
