package bundles_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A copy is deleted when it is no longer named, unless another Bundle wants it too.
func TestUnneededCopies_AreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	here, there := metav1.ObjectMeta{Namespace: w.workspace, Name: "shared"}, w.namespaceOf("one")
	secrets, configMaps := w.Kube.CoreV1().Secrets, w.Kube.CoreV1().ConfigMaps
	_, err := secrets(w.workspace).Create(t.Context(), &corev1.Secret{ObjectMeta: here}, metav1.CreateOptions{})
	must(t, err)
	here.Name = "settings"
	_, err = configMaps(w.workspace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: here}, metav1.CreateOptions{})
	must(t, err)

	shared, settings := fleet.DownstreamResource{Kind: "Secret", Name: "shared"}, fleet.DownstreamResource{Kind: "ConfigMap", Name: "settings"}
	w.bundle(t, "db", to("one"), func(b *fleet.Bundle) { b.Spec.DownstreamResources = []fleet.DownstreamResource{shared} })
	w.bundle(t, "web", to("one"), w.confidential(t, "web", `{"a":1}`), func(b *fleet.Bundle) { b.Spec.DownstreamResources = []fleet.DownstreamResource{settings, shared} })
	copied := func(bd *fleet.BundleDeployment) bool { return bd.Spec.DownstreamResourcesGeneration > 0 }
	db, web := w.deployment(t, "db", "one", "a copy", copied), w.deployment(t, "web", "one", "its copies", copied)
	eventually := func(check func(Gomega)) {
		t.Helper()
		NewWithT(t).Eventually(check).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
	}
	eventually(func(g Gomega) {
		secret, err := secrets(there).Get(t.Context(), "shared", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(secret.OwnerReferences).To(ConsistOf(HaveField("UID", db.UID), HaveField("UID", web.UID)))
		_, err = configMaps(there).Get(t.Context(), "settings", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	})

	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"downstreamResources": nil}})
	eventually(func(g Gomega) {
		secret, err := secrets(there).Get(t.Context(), "shared", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(secret.OwnerReferences).To(ConsistOf(HaveField("UID", db.UID)))
		_, err = configMaps(there).Get(t.Context(), "settings", metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})
	w.expectSecret(t, web, `{"a":1}`)

	w.patch(t, client.Bundles, "db", map[string]any{"spec": map[string]any{"downstreamResources": []any{settings}}})
	eventually(func(g Gomega) {
		_, err := secrets(there).Get(t.Context(), "shared", metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		config, err := configMaps(there).Get(t.Context(), "settings", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config.OwnerReferences).To(ConsistOf(HaveField("UID", db.UID)))
	})
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"downstreamResources": []any{settings}}})
	eventually(func(g Gomega) {
		config, err := configMaps(there).Get(t.Context(), "settings", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config.OwnerReferences).To(ConsistOf(HaveField("UID", db.UID), HaveField("UID", web.UID)))
	})
	_, err = configMaps(w.workspace).Get(t.Context(), "settings", metav1.GetOptions{})
	must(t, err) // created by the user
}
