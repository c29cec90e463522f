package removal

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("A hub that is removed", Ordered, func() {
	It("has its own cluster and another one", func(ctx SpecContext) {
		Expect(world.Import(ctx, east, nil)).To(Succeed())
		_, err := world.Joined(ctx, framework.Workspace, east, framework.Named(east))
		Expect(err).NotTo(HaveOccurred())
		_, err = world.Joined(ctx, framework.LocalWorkspace, framework.HubName, framework.Named(names.LocalCluster))
		Expect(err).NotTo(HaveOccurred())
	})

	It("keeps the hub document while its controllers are not installed", func(ctx SpecContext) {
		before := published(ctx)
		Expect(helm.Release{Config: world.Plane.Hub.Config(), Name: "fleet", Namespace: names.SystemNamespace}.Uninstall(ctx)).To(Succeed())
		Expect(published(ctx).UID).To(Equal(before.UID))
		Expect(world.InstallHub(ctx, settings(map[string]any{}))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(published(ctx).ResourceVersion).NotTo(Equal(before.ResourceVersion))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		Expect(published(ctx).UID).To(Equal(before.UID))
	})

	It("loses its own agent first", func(ctx SpecContext) {
		Expect(world.InstallHub(ctx, settings(map[string]any{"localAgentDisabled": true}))).To(Succeed())
		Eventually(func(g Gomega) {
			_, err := world.Hub.Kube.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("deletes all Clusters and workspaces", func(ctx SpecContext) {
		Expect(world.InstallHub(ctx, settings(map[string]any{"enabled": false, "localAgentDisabled": true}))).To(Succeed())
		for _, c := range []struct{ workspace, name string }{{framework.Workspace, east}, {framework.LocalWorkspace, names.LocalCluster}} {
			Expect(world.Hub.Delete(ctx, client.Clusters, c.workspace, c.name)).To(Succeed())
		}
		namespaces := world.Hub.Kube.CoreV1().Namespaces()
		for _, workspace := range []string{framework.Workspace, framework.LocalWorkspace} {
			Expect(namespaces.Delete(ctx, workspace, metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(func(g Gomega) {
			list, err := namespaces.List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			var left []string
			for _, namespace := range list.Items {
				left = append(left, namespace.Name)
			}
			g.Expect(left).To(ConsistOf("default", "kube-system", "kube-public", "kube-node-lease", names.SystemNamespace, names.RegistrationNamespace(names.SystemNamespace)))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("is removed with its charts", func(ctx SpecContext) {
		for _, name := range []string{"fleet", "fleet-crd"} {
			release := helm.Release{Config: world.Plane.Hub.Config(), Chart: name, Name: name, Namespace: names.SystemNamespace}
			Expect(release.Uninstall(ctx)).To(Succeed())
		}
		Eventually(func(g Gomega) {
			for _, resource := range []string{client.Clusters, client.Bundles, client.BundleDeployments, client.ClusterRegistrations} {
				found, err := world.Hub.Fleet.Get().Resource(resource).DoRaw(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(found)).To(ContainSubstring(`"items":[]`))
			}
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		Expect(left(ctx)).To(ConsistOf(
			"namespaces "+names.SystemNamespace, "namespaces "+names.RegistrationNamespace(names.SystemNamespace),
			"configmaps kube-public/"+names.HubDocument,
			"clusterroles.rbac.authorization.k8s.io fleet-bundle-deployment", "clusterroles.rbac.authorization.k8s.io fleet-content",
		))
	})
})

// published returns the ConfigMap with the hub document.
func published(ctx context.Context) *corev1.ConfigMap {
	GinkgoHelper()
	found, err := world.Hub.Kube.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, names.HubDocument, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return found
}

// left are the objects that are the hub's by their names, but for kinds and what is in its namespaces.
func left(ctx context.Context) (found []string) {
	GinkgoHelper()
	taken, err := inventory.Take(ctx, world.Plane.Hub.Config())
	Expect(err).NotTo(HaveOccurred())
	for o := range taken {
		switch {
		case strings.HasSuffix(o.Name, "."+fleet.SchemeGroupVersion.Group), // a kind, or what serves it
			o.Namespace == names.SystemNamespace, o.Namespace == names.RegistrationNamespace(names.SystemNamespace),
			!strings.Contains(o.Namespace+o.Name, "fleet"):
			continue
		}
		found = append(found, strings.TrimSpace(o.Resource+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")))
	}
	return found
}
