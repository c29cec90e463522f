package bundles_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const resembles = `invalid label selector: "Resembles" is not a valid label selector operator`

// unparsable is the text of a selector that the API server accepts but that cannot be parsed.
func unparsable() map[string]any {
	return map[string]any{"matchLabels": nil, "matchExpressions": []any{map[string]any{"key": "a", "operator": "Resembles"}}}
}

// labelled is a selector of one label, as it is written over another one.
func labelled(key, value string) map[string]any {
	return map[string]any{"matchExpressions": nil, "matchLabels": map[string]any{key: value}}
}

// group makes a ClusterGroup.
func (w *world) group(t testing.TB, name string, selector *metav1.LabelSelector, labels map[string]string) {
	t.Helper()
	g := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: name, Labels: labels}}
	g.Spec.Selector = selector
	must(t, w.Create(t.Context(), client.ClusterGroups, g))
}

func byLabel(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// groupThat waits until a ClusterGroup is as wanted.
func (w *world) groupThat(t testing.TB, name, what string, done func(*fleet.ClusterGroup) bool) *fleet.ClusterGroup {
	t.Helper()
	g, err := client.Until(t.Context(), client.Await{
		From: w.Fleet, Resource: client.ClusterGroups, Namespace: w.workspace, Name: name, For: what, Within: patience,
	}, done)
	must(t, err)
	return g
}

// shows waits until a group shows this of its clusters and Bundles.
func (w *world) shows(t testing.TB, name, clusters, bundles string) *fleet.ClusterGroup {
	t.Helper()
	return w.groupThat(t, name, clusters+" clusters and "+bundles+" Bundles ready", func(g *fleet.ClusterGroup) bool {
		return g.Status.Display.ReadyClusters == clusters && g.Status.Display.ReadyBundles == bundles
	})
}

// label sets a label of an object of the workspace; nil removes it.
func (w *world) label(t testing.TB, resource, name, key string, value any) {
	t.Helper()
	w.patch(t, resource, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
}

// columns are what `kubectl get` prints of an object.
func (w *world) columns(t testing.TB, resource, name string) (cells []any) {
	t.Helper()
	table := &metav1.Table{}
	body, err := w.Fleet.Get().Namespace(w.workspace).Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	must(t, err)
	must(t, json.Unmarshal(body, table))
	return table.Rows[0].Cells
}

func TestClusterGroupStatus_FollowsItsClusters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.group(t, "prod", byLabel("env", "prod"), nil)
	w.group(t, "dev", byLabel("env", "dev"), nil)
	w.group(t, "all", &metav1.LabelSelector{}, nil)
	w.group(t, "none", nil, nil)
	for _, name := range []string{"prod", "dev", "all", "none"} {
		w.shows(t, name, "0/0", "0/0")
	}
	w.cluster(t, "one", map[string]string{"env": "prod"})
	w.cluster(t, "two", map[string]string{"env": "prod"})
	w.cluster(t, "three", map[string]string{"env": "dev"})
	w.shows(t, "prod", "2/2", "0/0")
	w.shows(t, "all", "3/3", "0/0")

	w.bundle(t, "web", func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: "prod"}} })
	w.bundle(t, "db", to("three"))
	one := w.deployment(t, "web", "one", "that of a member", exists)
	two := w.deployment(t, "web", "two", "that of another member", exists)
	w.shows(t, "prod", "0/2 (one,two)", "0/2")
	w.shows(t, "all", "0/3 (one,three,two)", "0/3")
	w.report(t, one, map[string]any{"resourceCounts": map[string]any{"ready": 2, "desiredReady": 2}})
	got := w.shows(t, "prod", "1/2 (two)", "1/2")
	got.Status.Conditions[0].LastUpdateTime, got.Status.Conditions[1].LastUpdateTime = "", ""
	want := fleet.ClusterGroupStatus{
		ClusterCount: 2, NonReadyClusterCount: 1, NonReadyClusters: []string{"two"},
		Summary: fleet.BundleSummary{Ready: 1, DesiredReady: 2, WaitApplied: 1, NonReadyResources: []fleet.NonReadyResource{
			{Name: "web", BundleState: fleet.WaitApplied},
		}},
		ResourceCounts: fleet.ResourceCounts{Ready: 2, DesiredReady: 2},
		Display:        fleet.ClusterGroupDisplay{ReadyClusters: "1/2 (two)", ReadyBundles: "1/2", State: "WaitApplied"},
		Conditions: []genericcondition.GenericCondition{
			{Type: "Ready", Status: "False", Message: "WaitApplied(1) [Bundle web]"}, {Type: "Processed", Status: "True"},
		},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"prod", "1/2 (two)", "1/2", "WaitApplied(1) [Bundle web]"}, w.columns(t, client.ClusterGroups, "prod")); diff != "" {
		t.Errorf("kubectl get clustergroups (-want +got):\n%s", diff)
	}
	w.report(t, two, nil)
	w.shows(t, "prod", "2/2", "2/2")

	// A cluster changes groups: the one it leaves and the one it joins both hear of it, and the Bundle follows.
	w.label(t, client.Clusters, "two", "env", "dev")
	w.shows(t, "prod", "1/1", "1/1")
	w.expectGone(t, "web", "two")
	w.shows(t, "dev", "1/2 (three)", "0/1")
	// Another selector, other members.
	w.patch(t, client.ClusterGroups, "prod", map[string]any{"spec": map[string]any{"selector": labelled("env", "dev")}})
	w.shows(t, "prod", "0/2 (three,two)", "0/3")
	w.expectGone(t, "web", "one")
	w.deployment(t, "web", "three", "a member now", exists)
	// A cluster leaves for good.
	must(t, w.Delete(t.Context(), client.Clusters, w.workspace, "three"))
	w.shows(t, "prod", "0/1 (two)", "0/1")
	w.shows(t, "none", "0/0", "0/0")
}

// Changes that a ClusterGroup does not show, such as heartbeats, cause no write.
func TestHeartbeats_DoNotWriteClusterGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.group(t, "all", &metav1.LabelSelector{}, nil)
	before := w.shows(t, "all", "1/1", "0/0")
	w.patchStatus(t, client.Clusters, w.workspace, "one", map[string]any{"agent": map[string]any{"lastSeen": "2026-11-21T07:43:58Z"}})
	w.patch(t, client.Clusters, "one", map[string]any{"spec": map[string]any{"paused": true}})
	w.label(t, client.Clusters, "one", "env", "dev") // all of these in the order of the watch, and this one wakes
	w.group(t, "dev", byLabel("env", "dev"), nil)
	w.shows(t, "dev", "1/1", "0/0")
	if after := w.shows(t, "all", "1/1", "0/0"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the group was written: %s became %s", before.ResourceVersion, after.ResourceVersion)
	}
	// Writes of other clients are overwritten.
	w.patchStatus(t, client.ClusterGroups, w.workspace, "all", map[string]any{"clusterCount": 7, "display": map[string]any{"readyClusters": "7/7"}})
	healed := w.shows(t, "all", "1/1", "0/0")
	if healed.Status.ClusterCount != 1 {
		t.Errorf("%d clusters are counted, want 1", healed.Status.ClusterCount)
	}
}

func TestClusterGroupLabelsChange_BundleFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"env": "prod"})
	w.group(t, "prod", byLabel("env", "prod"), map[string]string{"tier": "low"})
	w.bundle(t, "web", func(b *fleet.Bundle) {
		b.Spec.Targets = []fleet.BundleTarget{{ClusterGroupSelector: byLabel("tier", "high")}}
	})
	w.bundleThat(t, "web", "no cluster yet", func(b *fleet.Bundle) bool { return b.Status.Display.ReadyClusters == "0/0" })
	w.label(t, client.ClusterGroups, "prod", "tier", "high")
	w.deployment(t, "web", "one", "a member of a group with these labels", exists)
	w.label(t, client.ClusterGroups, "prod", "tier", nil)
	w.expectGone(t, "web", "one")
}

func TestBrokenGroup_IsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"env": "prod"})
	w.cluster(t, "two", map[string]string{"env": "dev"})
	w.group(t, "prod", byLabel("env", "prod"), nil)
	w.bundle(t, "web", func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: "prod"}} })
	w.bundle(t, "db", to("two"))
	before := w.deployment(t, "web", "one", "that of a member", exists)
	w.report(t, before, nil)
	w.bundleThat(t, "web", "ready", isReady)
	w.shows(t, "prod", "1/1", "1/1")

	w.patch(t, client.ClusterGroups, "prod", map[string]any{"spec": map[string]any{"selector": unparsable()}})
	const message = "ClusterGroup prod: selector: " + resembles + "; correct it: until then, the group's members are unknown, and what was deployed because of it stays"
	broken := w.groupThat(t, "prod", "why it has no members", func(g *fleet.ClusterGroup) bool {
		condition := conditions.Get(g.Status.Conditions, conditions.Ready)
		return condition != nil && condition.Status == "False" && condition.Reason == "SelectorInvalid" && condition.Message == message
	})
	if processed := conditions.Get(broken.Status.Conditions, conditions.Processed); processed.Status != "False" || processed.Reason != "SelectorInvalid" {
		t.Errorf("Processed = %+v", processed)
	}
	if diff := cmp.Diff([]any{"prod", "1/1", "1/1", message}, w.columns(t, client.ClusterGroups, "prod")); diff != "" {
		t.Errorf("kubectl get clustergroups (-want +got):\n%s", diff)
	}
	w.expectWarning(t, broken, "SelectorInvalid", message)
	w.bundleThat(t, "web", "why it is held", func(b *fleet.Bundle) bool {
		text, _ := readyMessage(b)
		return text == "targeting error: ClusterGroup prod: selector: "+resembles+"; correct that selector: until then, what depends on it stays as it is" &&
			conditions.Get(b.Status.Conditions, conditions.Ready).Reason == "SelectorInvalid" && b.Status.Display.ReadyClusters == "1/1"
	})
	// A change of the Bundle and one of the cluster pass by; a Bundle that is not concerned goes on.
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"forceSyncGeneration": 2}})
	w.bundleThat(t, "web", "the change to be seen", func(b *fleet.Bundle) bool { return b.Status.ObservedGeneration == b.Generation })
	w.label(t, client.Clusters, "one", "other", "label")
	w.patch(t, client.Bundles, "db", map[string]any{"spec": map[string]any{"forceSyncGeneration": 2}})
	w.deployment(t, "db", "two", "the change", func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.ForceSyncGeneration == 2 })
	if after := w.deployment(t, "web", "one", "the same", exists); after.UID != before.UID || after.Spec.DeploymentID != before.Spec.DeploymentID {
		t.Errorf("what was deployed was touched: %+v", after.Spec)
	}
	w.expectNone(t, "web", "two")

	w.patch(t, client.ClusterGroups, "prod", map[string]any{"spec": map[string]any{"selector": labelled("env", "prod")}})
	changed := w.deployment(t, "web", "one", "the change that was held", func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.ForceSyncGeneration == 2 })
	w.report(t, changed, nil)
	w.bundleThat(t, "web", "ready again", isReady)
	healed := w.groupThat(t, "prod", "ready", func(g *fleet.ClusterGroup) bool {
		condition := conditions.Get(g.Status.Conditions, conditions.Ready)
		return condition.Status == "True" && condition.Reason == "" && condition.Message == ""
	})
	if processed := conditions.Get(healed.Status.Conditions, conditions.Processed); processed.Status != "True" || processed.Reason != "" {
		t.Errorf("Processed = %+v", processed)
	}
}

// expectNone checks that a Bundle is not in a cluster.
func (w *world) expectNone(t *testing.T, bundle, cluster string) {
	t.Helper()
	list := &fleet.BundleDeploymentList{}
	must(t, w.List(t.Context(), client.BundleDeployments, w.namespaceOf(cluster), list))
	for _, bd := range list.Items {
		if bd.Name == bundle {
			t.Errorf("Bundle %s is in %s", bundle, cluster)
		}
	}
}

// expectWarning waits for an Event.
func (w *world) expectWarning(t *testing.T, about client.Object, reason, message string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		events, err := w.Kube.CoreV1().Events(about.GetNamespace()).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(about.GetUID()),
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(events.Items).To(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", reason), HaveField("Message", message),
		)))
	}).WithTimeout(patience).WithPolling(50 * time.Millisecond).Should(Succeed())
}
