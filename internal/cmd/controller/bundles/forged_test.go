package bundles_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const notCopied = "its downstreamResources are not copied, because the hub has not made this BundleDeployment for a Cluster that its Bundle may go to; " +
	"if you did not mean to create it, remove it: kubectl delete bundledeployments.fleet.cattle.io -n "

// forge makes a BundleDeployment in a namespace, with the labels of a Bundle and Cluster of w, that asks for a Secret.
func (w *world) forge(t *testing.T, namespace, name, cluster, secret string) *fleet.BundleDeployment {
	t.Helper()
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		fleet.LabelBundleName: name, fleet.LabelBundleNamespace: w.workspace, fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: w.workspace,
	}}}
	bd.Spec.Options.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: secret}}
	must(t, w.Create(t.Context(), client.BundleDeployments, bd))
	return bd
}

// expectNoCopy waits for the Event of a refusal, and fails as soon as there is a copy.
func (w *world) expectNoCopy(t *testing.T, bd *fleet.BundleDeployment, secret string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		if found, err := w.Kube.CoreV1().Secrets(bd.Namespace).Get(t.Context(), secret, metav1.GetOptions{}); err == nil {
			t.Fatalf("Secret %s/%s was copied for a forged BundleDeployment: %d keys", found.Namespace, found.Name, len(found.Data))
		}
		events, err := w.Kube.CoreV1().Events(bd.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(bd.UID)})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(events.Items).To(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", "BundleDeploymentForged"), HaveField("Message", notCopied+bd.Namespace+" "+bd.Name),
		)))
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
}

func TestForgedBundleDeployment_CopiesNothing(t *testing.T) {
	t.Parallel()
	victim, tenant := newWorld(t), newWorkspace(t)
	victim.cluster(t, "one", nil)
	tenant.cluster(t, "own", nil)
	_, err := victim.Kube.CoreV1().Secrets(victim.workspace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: victim.workspace, Name: "canary"}, Data: map[string][]byte{"k": []byte("canary")},
	}, metav1.CreateOptions{})
	must(t, err)
	victim.bundle(t, "web", to("one"), func(b *fleet.Bundle) {
		b.Spec.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "canary"}}
	})
	victim.deployment(t, "web", "one", "its copy", func(bd *fleet.BundleDeployment) bool { return bd.Spec.DownstreamResourcesGeneration > 0 })

	tenant.expectNoCopy(t, victim.forge(t, tenant.workspace, "web", "one", "canary"), "canary")
	tenant.expectNoCopy(t, victim.forge(t, tenant.namespaceOf("own"), "web", "one", "canary"), "canary")
}

func TestForgedBundleDeployment_ChangesNoStatus(t *testing.T) {
	t.Parallel()
	victim, tenant := newWorld(t), newWorkspace(t)
	victim.cluster(t, "one", nil)
	victim.bundle(t, "web", to("one"), func(b *fleet.Bundle) { b.Labels = map[string]string{fleet.LabelRepoName: "repo"} })
	victim.report(t, victim.deployment(t, "web", "one", "its BundleDeployment", exists), nil)
	victim.bundleThat(t, "web", "ready", isReady)

	forged := victim.forge(t, tenant.workspace, "web", "one", "none")
	must(t, victim.Patch(t.Context(), client.BundleDeployments, forged.Namespace, forged.Name,
		[]byte(`{"metadata":{"finalizers":["example.com/tenant"]},"spec":{"options":{"allowedTargetNamespaceSelector":{}}}}`)))
	victim.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"defaultNamespace": "web"}})
	victim.report(t, victim.deployment(t, "web", "one", "the change", func(bd *fleet.BundleDeployment) bool {
		return bd.Spec.Options.DefaultNamespace == "web"
	}), nil)
	victim.bundleThat(t, "web", "ready for its one cluster", func(b *fleet.Bundle) bool { return isReady(b) && b.Status.Display.ReadyClusters == "1/1" })

	victim.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"contentsId": "s-none"}})
	victim.bundleThat(t, "web", "its one cluster, though it cannot be used", func(b *fleet.Bundle) bool {
		return b.Status.ObservedGeneration == b.Generation && b.Status.Display.ReadyClusters == "1/1"
	})
	must(t, victim.Delete(t.Context(), client.Bundles, victim.workspace, "web"))
	NewWithT(t).Eventually(func() error {
		return victim.Get(t.Context(), client.Bundles, victim.workspace, "web", &fleet.Bundle{})
	}).WithTimeout(patience).WithPolling(20*time.Millisecond).ShouldNot(Succeed(), "a finalizer of another tenant keeps the Bundle")
	still := &fleet.BundleDeployment{}
	must(t, victim.Get(t.Context(), client.BundleDeployments, forged.Namespace, forged.Name, still))
	if still.DeletionTimestamp != nil {
		t.Error("the controllers deleted what they have not made")
	}
	must(t, victim.Patch(t.Context(), client.BundleDeployments, forged.Namespace, forged.Name, []byte(`{"metadata":{"finalizers":null}}`)))
}

func TestSecretWithTheNameOfTheValues_Stays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	secrets := w.Kube.CoreV1().Secrets(w.namespaceOf("one"))
	before, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespaceOf("one"), Name: "web"}, Data: map[string][]byte{"k": []byte("canary")},
	}, metav1.CreateOptions{})
	must(t, err)
	w.bundle(t, "web", to("one"), w.confidential(t, "web", `{"a":1}`))
	w.bundleThat(t, "web", "what is in the way", func(b *fleet.Bundle) bool {
		text, _ := readyMessage(b)
		return text == "ErrApplied(1) [Cluster "+w.workspace+"/one: write error: Secret "+before.Namespace+"/web exists and was not created by Fleet: "+
			"kubectl describe secret -n "+before.Namespace+" web; delete it, or rename the Bundle]"
	})
	after, err := secrets.Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	if after.UID != before.UID || string(after.Data["k"]) != "canary" {
		t.Error("the Secret was replaced")
	}
	must(t, secrets.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.expectSecret(t, w.deployment(t, "web", "one", "its BundleDeployment", exists), `{"a":1}`)
}
