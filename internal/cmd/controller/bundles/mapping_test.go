package bundles_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// mapping makes a BundleNamespaceMapping.
func (w *world) mapping(t testing.TB, name string, bundles, namespaces *metav1.LabelSelector) *fleet.BundleNamespaceMapping {
	t.Helper()
	m := &fleet.BundleNamespaceMapping{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: name}, BundleSelector: bundles, NamespaceSelector: namespaces,
	}
	must(t, w.Create(t.Context(), client.Mappings, m))
	return m
}

// labelWorkspace sets a label of the workspace itself; nil removes it.
func (w *world) labelWorkspace(t testing.TB, key string, value any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
	must(t, err)
	_, err = w.Kube.CoreV1().Namespaces().Patch(t.Context(), w.workspace, types.MergePatchType, body, metav1.PatchOptions{})
	must(t, err)
}

// teamed gives a Bundle the label that the mapping selects.
func teamed(b *fleet.Bundle) { b.Labels = map[string]string{"team": "a"} }

func TestMapping_ReachesClustersOfOtherWorkspaces(t *testing.T) {
	t.Parallel()
	home, away := newWorld(t), newWorkspace(t)
	tier := "t-" + away.workspace // of this run alone
	away.labelWorkspace(t, "tier", tier)
	home.cluster(t, "near", nil)
	away.cluster(t, "far", map[string]string{"env": "prod"})
	home.bundle(t, "web", teamed, everywhere, values("on", "${ .ClusterName }"))
	home.bundle(t, "db", everywhere)
	home.deployment(t, "web", "near", "that of its own workspace", exists)
	home.bundleThat(t, "web", "one cluster", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/1" })
	away.expectNone(t, "web", "far")

	// A mapping, and a Bundle it does not select.
	home.mapping(t, "m", byLabel("team", "a"), byLabel("tier", tier))
	far := away.deployment(t, "web", "far", "that of a mapped cluster", exists)
	for key, want := range map[string]string{
		fleet.LabelBundleNamespace: home.workspace, fleet.LabelBundleName: "web", fleet.LabelClusterNamespace: away.workspace, fleet.LabelCluster: "far", "team": "a",
	} {
		if far.Labels[key] != want {
			t.Errorf("label %s = %q, want %q", key, far.Labels[key], want)
		}
	}
	away.expectValues(t, far, `{"on":"far"}`)
	home.bundleThat(t, "web", "two clusters", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/2" })
	away.expectNone(t, "db", "far")
	away.clusterThat(t, "far", "its Bundle", func(c *fleet.Cluster) bool { return c.Status.Display.ReadyBundles == "0/1" })

	// A Cluster that comes later, and one that changes.
	away.cluster(t, "later", nil)
	away.deployment(t, "web", "later", "that of a cluster that came later", exists)
	home.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"targets": []any{map[string]any{"clusterSelector": labelled("env", "prod")}}}})
	away.expectGone(t, "web", "later")
	away.label(t, client.Clusters, "later", "env", "prod")
	away.deployment(t, "web", "later", "that of a cluster that is picked now", exists)

	// The Bundle's labels, the workspace's labels, and the mapping itself.
	home.label(t, client.Bundles, "web", "team", "b")
	away.expectGone(t, "web", "far")
	home.label(t, client.Bundles, "web", "team", "a")
	away.deployment(t, "web", "far", "a Bundle that is mapped again", exists)
	away.labelWorkspace(t, "tier", nil)
	away.expectGone(t, "web", "far")
	away.labelWorkspace(t, "tier", tier)
	away.deployment(t, "web", "far", "a workspace that is mapped again", exists)
	home.patch(t, client.Mappings, "m", map[string]any{"namespaceSelector": labelled("tier", "no-such")})
	away.expectGone(t, "web", "far")
	home.patch(t, client.Mappings, "m", map[string]any{"namespaceSelector": labelled("tier", tier)})
	away.deployment(t, "web", "far", "a mapping that leads there again", exists)
	must(t, home.Delete(t.Context(), client.Mappings, home.workspace, "m"))
	away.expectGone(t, "web", "far")
	away.expectGone(t, "web", "later")
}

// accept sets the list of workspaces whose Bundles the workspace accepts; nil removes it.
func (w *world) accept(t testing.TB, list any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation.AcceptBundlesFrom: list}}})
	must(t, err)
	_, err = w.Kube.CoreV1().Namespaces().Patch(t.Context(), w.workspace, types.MergePatchType, body, metav1.PatchOptions{})
	must(t, err)
}

func TestWorkspace_MayRefuseBundlesOfOthers(t *testing.T) {
	t.Parallel()
	home, away := newWorld(t), newWorkspace(t)
	tier := "t-" + away.workspace
	away.labelWorkspace(t, "tier", tier)
	away.cluster(t, "far", nil)
	m := home.mapping(t, "m", &metav1.LabelSelector{}, byLabel("tier", tier))
	home.bundle(t, "web", everywhere)
	away.bundle(t, "own", everywhere)
	away.deployment(t, "web", "far", "that of a mapped cluster", exists)

	message := "workspaces that do not accept Bundles of " + home.workspace + ": " + away.workspace +
		". To accept them, an owner of each Namespace adds " + home.workspace + " to its annotation: kubectl annotate namespace " +
		away.workspace + " --overwrite fleet.cattle.io/accept-bundles-from=OTHERS," + home.workspace
	accepted := func(b *fleet.Bundle) (status, message string) {
		if condition := conditions.Get(b.Status.Conditions, conditions.TargetsAccepted); condition != nil {
			return string(condition.Status), condition.Message
		}
		return "", ""
	}
	away.accept(t, "none")
	away.expectGone(t, "web", "far")
	home.expectWarning(t, m, conditions.ReasonMappingRefused, message)
	home.bundleThat(t, "web", "who refuses it", func(b *fleet.Bundle) bool {
		status, text := accepted(b)
		return status == "False" && text == message && b.Status.Display.ReadyClusters == "0/0"
	})
	away.deployment(t, "own", "far", "that of its own workspace", exists)

	away.accept(t, "somebody, "+home.workspace)
	away.deployment(t, "web", "far", "a Bundle that is accepted", exists)
	home.bundleThat(t, "web", "that it is accepted", func(b *fleet.Bundle) bool {
		status, _ := accepted(b)
		return status == "True"
	})
	away.accept(t, "somebody")
	away.expectGone(t, "web", "far")
	away.accept(t, nil)
	away.deployment(t, "web", "far", "a Bundle where nothing is refused", exists)
}

func TestMappedBundle_UsesGroupsOfTheClustersWorkspace(t *testing.T) {
	t.Parallel()
	home, away := newWorld(t), newWorkspace(t)
	tier := "t-" + away.workspace
	away.labelWorkspace(t, "tier", tier)
	away.cluster(t, "far", map[string]string{"env": "prod"})
	home.group(t, "prod", &metav1.LabelSelector{}, nil)
	home.mapping(t, "m", &metav1.LabelSelector{}, byLabel("tier", tier))
	home.bundle(t, "web", func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: "prod"}} })
	home.bundleThat(t, "web", "no cluster yet", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/0" })
	away.group(t, "prod", byLabel("env", "prod"), nil)
	far := away.deployment(t, "web", "far", "that of a member there", exists)
	away.report(t, far, nil)
	away.shows(t, "prod", "1/1", "1/1")
	must(t, away.Delete(t.Context(), client.ClusterGroups, away.workspace, "prod"))
	home.bundleThat(t, "web", "where it misses the group", func(b *fleet.Bundle) bool {
		known := conditions.Get(b.Status.Conditions, conditions.TargetsKnown)
		return known != nil && known.Status == corev1.ConditionFalse && strings.Contains(known.Message, "no such ClusterGroup in "+away.workspace)
	})
	if still := away.deployment(t, "web", "far", "what nobody said should go", exists); still.UID != far.UID {
		t.Error("it was deployed anew")
	}
	away.group(t, "prod", byLabel("env", "test"), nil)
	away.expectGone(t, "web", "far")
}

func TestBrokenMapping_IsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ field string }{
		"the selector of namespaces": {"namespaceSelector"},
		"the selector of Bundles":    {"bundleSelector"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			home, away := newWorld(t), newWorkspace(t)
			tier := "t-" + away.workspace
			away.labelWorkspace(t, "tier", tier)
			home.cluster(t, "near", nil)
			away.cluster(t, "far", nil)
			m := home.mapping(t, "m", byLabel("team", "a"), byLabel("tier", tier))
			home.bundle(t, "web", teamed, everywhere)
			before := away.deployment(t, "web", "far", "that of a mapped cluster", exists)
			away.report(t, before, nil)
			home.report(t, home.deployment(t, "web", "near", "the other", exists), nil)
			home.bundleThat(t, "web", "ready", isReady)

			home.patch(t, client.Mappings, "m", map[string]any{test.field: unparsable()})
			trouble := "BundleNamespaceMapping m: " + test.field + ": " + resembles + "; correct that selector: until then, what "
			home.expectWarning(t, m, "SelectorInvalid", trouble+"was deployed through the mapping stays as it is")
			home.bundleThat(t, "web", "why it is held", func(b *fleet.Bundle) bool {
				text, _ := readyMessage(b)
				return text == "targeting error: "+trouble+"depends on it stays as it is" && b.Status.Display.ReadyClusters == "2/2"
			})
			// At home everything goes on; what is elsewhere stays as it is, and nothing new comes.
			home.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"forceSyncGeneration": 2}})
			home.deployment(t, "web", "near", "the change", func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.ForceSyncGeneration == 2 })
			home.bundleThat(t, "web", "the change to be seen", func(b *fleet.Bundle) bool { return b.Status.ObservedGeneration == b.Generation })
			if after := away.deployment(t, "web", "far", "the same", exists); after.UID != before.UID || after.Spec.DeploymentID != before.Spec.DeploymentID {
				t.Errorf("what was deployed was touched: %+v", after.Spec)
			}

			repaired := map[string]any{"bundleSelector": labelled("team", "a"), "namespaceSelector": labelled("tier", tier)}
			home.patch(t, client.Mappings, "m", map[string]any{test.field: repaired[test.field]})
			away.report(t, away.deployment(t, "web", "far", "the change", func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.ForceSyncGeneration == 2 }), nil)
			home.report(t, home.deployment(t, "web", "near", "the other", exists), nil)
			home.bundleThat(t, "web", "ready again", isReady)
		})
	}
}

func TestMappingWithOneSelector_IsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.mapping(t, "m", &metav1.LabelSelector{}, nil)
	w.expectWarning(t, m, "MappingIncomplete", "BundleNamespaceMapping m: both bundleSelector and namespaceSelector must be set; as it is, the mapping does nothing")
}

// A cluster has one BundleDeployment of a name: that of the first Bundle.
func TestMappedBundle_DoesNotReplaceABundleOfThatName(t *testing.T) {
	t.Parallel()
	home, away := newWorld(t), newWorkspace(t)
	tier := "t-" + away.workspace
	away.labelWorkspace(t, "tier", tier)
	away.cluster(t, "far", nil)
	away.bundle(t, "web", everywhere)
	own := away.deployment(t, "web", "far", "its own workspace's", exists)
	home.mapping(t, "m", &metav1.LabelSelector{}, byLabel("tier", tier))
	home.bundle(t, "web", everywhere)
	home.bundleThat(t, "web", "who is in the way", func(b *fleet.Bundle) bool {
		text, _ := readyMessage(b)
		return text == "ErrApplied(1) [Cluster "+away.workspace+"/far: targeting error: a Bundle of the same name from another workspace is already deployed there: rename one of them]"
	})
	if still := away.deployment(t, "web", "far", "the same", exists); still.UID != own.UID || still.Labels[fleet.LabelBundleNamespace] != away.workspace {
		t.Errorf("it was replaced: %+v", still.Labels)
	}
	must(t, away.Delete(t.Context(), client.Bundles, away.workspace, "web"))
	away.deployment(t, "web", "far", "the one that waited", func(bd *fleet.BundleDeployment) bool { return bd.Labels[fleet.LabelBundleNamespace] == home.workspace })
}

func TestAgentBundle_IgnoresMappings(t *testing.T) {
	t.Parallel()
	home, away := newWorld(t), newWorkspace(t)
	tier := "t-" + away.workspace
	away.labelWorkspace(t, "tier", tier)
	home.cluster(t, "one", nil)
	away.cluster(t, "one", nil)
	home.mapping(t, "m", &metav1.LabelSelector{}, byLabel("tier", tier))
	home.bundle(t, names.AgentBundle("one"), to("one"), func(b *fleet.Bundle) {
		b.Annotations = map[string]string{fleet.AnnotationSetID: names.AgentBundleSet}
	})
	home.bundle(t, "web", to("one")) // the mapping leads there
	away.deployment(t, "web", "one", "that of the mapped cluster", exists)
	home.deployment(t, names.AgentBundle("one"), "one", "that of its own cluster", exists)
	home.bundleThat(t, names.AgentBundle("one"), "one cluster", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/1" })
	away.expectNone(t, names.AgentBundle("one"), "one")
}
