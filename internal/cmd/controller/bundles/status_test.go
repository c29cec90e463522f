package bundles_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestReportedStatus_IsSummedUpInBundleAndCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.cluster(t, "two", nil)
	w.bundle(t, "web", everywhere)
	one := w.deployment(t, "web", "one", "the first", exists)
	two := w.deployment(t, "web", "two", "the second", exists)
	w.bundleThat(t, "web", "both waiting", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return message == "WaitApplied(2) [Cluster "+w.workspace+"/one]" && b.Status.Display == fleet.BundleDisplay{ReadyClusters: "0/2", State: "WaitApplied"}
	})
	w.report(t, one, map[string]any{"resourceCounts": map[string]any{"ready": 2, "desiredReady": 2}})
	w.report(t, two, map[string]any{
		"ready":          false,
		"resourceCounts": map[string]any{"ready": 1, "desiredReady": 2, "notReady": 1},
		"nonReadyStatus": []any{map[string]any{
			"kind": "Deployment", "apiVersion": "apps/v1", "namespace": "ns", "name": "web",
			"summary": map[string]any{"state": "in-progress", "transitioning": true, "message": []any{"Available: 0/1"}},
		}},
	})
	const detail = "; deployment.apps ns/web [progressing] Available: 0/1"
	got := w.bundleThat(t, "web", "one not ready", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return message == "NotReady(1) [Cluster "+w.workspace+"/two]"+detail
	})
	if got.Status.Display != (fleet.BundleDisplay{ReadyClusters: "1/2", State: "NotReady"}) || got.Status.Unavailable != 1 || got.Status.MaxUnavailable != 2 {
		t.Errorf("status = %+v", got.Status)
	}
	w.expectCluster(t, "two", "NotReady(1) [Bundle web]"+detail, fleet.ClusterDisplay{ReadyBundles: "0/1", State: "WaitCheckIn"},
		fleet.ResourceCounts{Ready: 1, DesiredReady: 2, NotReady: 1})
	w.deployment(t, "web", "two", "its state", func(bd *fleet.BundleDeployment) bool { return bd.Status.Display.State == "NotReady" })

	w.report(t, two, map[string]any{"nonReadyStatus": nil, "resourceCounts": map[string]any{"ready": 2, "desiredReady": 2, "notReady": 0}})
	w.patchStatus(t, client.Clusters, w.workspace, "two", map[string]any{"agent": map[string]any{"lastSeen": "2026-11-21T07:43:58Z", "namespace": "n"}})
	w.bundleThat(t, "web", "both ready", func(b *fleet.Bundle) bool {
		return isReady(b) && b.Status.Display == fleet.BundleDisplay{ReadyClusters: "2/2"}
	})
	cluster := w.expectCluster(t, "two", "", fleet.ClusterDisplay{ReadyBundles: "1/1"}, fleet.ResourceCounts{Ready: 2, DesiredReady: 2})
	if cluster.Status.Agent.Namespace != "n" || cluster.Status.Namespace != w.namespaceOf("two") {
		t.Errorf("fields of others were touched: %+v", cluster.Status)
	}
}

// expectCluster waits for what a Cluster says of its Bundles; no message is ready.
func (w *world) expectCluster(t *testing.T, name, message string, display fleet.ClusterDisplay, counts fleet.ResourceCounts) *fleet.Cluster {
	t.Helper()
	return w.clusterThat(t, name, "its Bundles", func(c *fleet.Cluster) bool {
		ready := conditions.Get(c.Status.Conditions, conditions.Ready)
		return ready != nil && ready.Message == message && (ready.Status == "True") == (message == "") &&
			c.Status.Display == display && c.Status.ResourceCounts == counts
	})
}

func TestInvalidBundle_IsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	invalid := map[string]any{"targets": []any{map[string]any{"name": "prod", "clusterSelector": map[string]any{
		"matchExpressions": []any{map[string]any{"key": "a", "operator": "Resembles"}},
	}}}}
	tests := map[string]struct {
		change, repair map[string]any
		want           string
	}{
		"selector": {
			invalid, map[string]any{"targets": []any{map[string]any{"clusterName": "one"}}},
			`targeting error: spec.targets[0] (prod): clusterSelector: invalid label selector: "Resembles" is not a valid label selector operator`,
		},
		"registry": {
			map[string]any{"contentsId": "s-1"}, map[string]any{"contentsId": nil},
			"targeting error: contentsId: resources in an OCI registry are not supported; put them into spec.resources",
		},
		"helmop": {
			map[string]any{"helmOpOptions": map[string]any{}}, map[string]any{"helmOpOptions": nil},
			"targeting error: helmOpOptions: charts fetched by the agents are not supported; put the chart into spec.resources",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cluster(t, "one", nil)
			w.bundle(t, "web", to("one"))
			before := w.deployment(t, "web", "one", "its BundleDeployment", exists)
			w.report(t, before, nil)
			w.bundleThat(t, "web", "ready", isReady)

			w.patch(t, client.Bundles, "web", map[string]any{"spec": test.change})
			got := w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
				message, _ := readyMessage(b)
				return message == test.want
			})
			if condition := conditions.Get(got.Status.Conditions, conditions.Ready); condition.Reason != "Error" || condition.Status != "False" {
				t.Errorf("condition = %+v", condition)
			}
			after := w.deployment(t, "web", "one", "the same", exists)
			if after.UID != before.UID || after.Spec.DeploymentID != before.Spec.DeploymentID {
				t.Errorf("what was deployed was touched: %+v", after)
			}

			w.patch(t, client.Bundles, "web", map[string]any{"spec": test.repair})
			healed := w.bundleThat(t, "web", "ready again", isReady)
			if condition := conditions.Get(healed.Status.Conditions, conditions.Ready); condition.Reason != "" || condition.Message != "" {
				t.Errorf("condition = %+v", condition)
			}
		})
	}
}

func TestFailingTemplate_ConcernsOneCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"env": "dev"})
	w.cluster(t, "two", map[string]string{"env": "dev", "zone": "b"})
	w.bundle(t, "web", everywhere, values("zone", "${ .ClusterLabels.zone }"))
	two := w.deployment(t, "web", "two", "the other goes on", exists)
	w.report(t, two, nil)
	w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.HasPrefix(message, "ErrApplied(1) [Cluster "+w.workspace+"/one: targeting error: cluster one in namespace "+w.workspace+": helm.values: ") &&
			b.Status.Display == fleet.BundleDisplay{ReadyClusters: "1/2", State: "ErrApplied"}
	})
	w.patch(t, client.Clusters, "one", map[string]any{"metadata": map[string]any{"labels": map[string]any{"zone": "a"}}})
	one := w.deployment(t, "web", "one", "it heals", exists)
	w.expectValues(t, one, `{"zone":"a"}`)
	// What it has stays when its template fails again.
	w.patch(t, client.Clusters, "one", map[string]any{"metadata": map[string]any{"labels": map[string]any{"zone": nil}}})
	w.bundleThat(t, "web", "the reason again", func(b *fleet.Bundle) bool { return b.Status.Display.State == "ErrApplied" })
	if again := w.deployment(t, "web", "one", "it stays", exists); again.UID != one.UID {
		t.Error("the BundleDeployment was replaced")
	}
}

func TestMissingValuesSecret_IsReportedUntilItExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"n": "1"})
	data := map[string][]byte{"values.yaml": []byte(`{"a":1}`)}
	w.bundle(t, "web", to("one"), func(b *fleet.Bundle) { b.Spec.ValuesHash = delivery.BundleValuesHash(data) })
	w.bundleThat(t, "web", "the missing secret", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return message == "targeting error: spec.valuesHash: the Secret of the Bundle's name with its values (type fleet.cattle.io/bundle-values/v1alpha1) is missing; "+
			"apply the Bundle again together with its values"
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: "web"}, Type: fleet.SecretTypeBundleValues, Data: data}
	_, err := w.Kube.CoreV1().Secrets(w.workspace).Create(t.Context(), secret, metav1.CreateOptions{})
	must(t, err)
	bd := w.deployment(t, "web", "one", "its BundleDeployment", exists)
	w.expectSecret(t, bd, `{"a":1}`)
	stored := &fleet.Bundle{}
	must(t, w.Get(t.Context(), client.Bundles, w.workspace, "web", stored))
	if stored.Spec.Helm != nil {
		t.Errorf("the values were written into the Bundle: %+v", stored.Spec.Helm)
	}
}

// Of a Bundle and its values, which are written one after the other, the Bundle may come first.
func TestABundleWrittenBeforeItsValues_ShowsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	data := map[string][]byte{"values.yaml": []byte(`{"a":1}`)}
	w.bundle(t, "web", to("one"), func(b *fleet.Bundle) { b.Spec.ValuesHash = delivery.BundleValuesHash(data) })
	w.bundleThat(t, "web", "to be looked at", func(b *fleet.Bundle) bool { return len(b.Finalizers) > 0 })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: "web"}, Type: fleet.SecretTypeBundleValues, Data: data}
	_, err := w.Kube.CoreV1().Secrets(w.workspace).Create(t.Context(), secret, metav1.CreateOptions{})
	must(t, err)
	w.bundleThat(t, "web", "its cluster", func(b *fleet.Bundle) bool {
		if text, _ := readyMessage(b); strings.Contains(text, "targeting error") {
			t.Fatalf("shown though the values were there: %s", text)
		}
		return b.Status.Display.ReadyClusters == "0/1"
	})
}

func TestDeploymentOfAnotherBundle_Stays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	foreign := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespaceOf("one"), Name: "web",
		Labels: map[string]string{fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "elsewhere"},
	}}
	must(t, w.Create(t.Context(), client.BundleDeployments, foreign))
	w.bundle(t, "web", to("one"))
	w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return message == "ErrApplied(1) [Cluster "+w.workspace+"/one: targeting error: a Bundle of the same name from another workspace is already deployed there: rename one of them]"
	})
	must(t, w.Delete(t.Context(), client.BundleDeployments, foreign.Namespace, "web"))
	NewWithT(t).Eventually(func(g Gomega) {
		bd := &fleet.BundleDeployment{}
		g.Expect(w.Get(t.Context(), client.BundleDeployments, w.namespaceOf("one"), "web", bd)).To(Succeed())
		g.Expect(bd.Labels[fleet.LabelBundleNamespace]).To(Equal(w.workspace))
	}).WithTimeout(patience).WithPolling(50 * time.Millisecond).Should(Succeed())
}
