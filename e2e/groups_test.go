package e2e

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// East and west have different values of label ring. Each ring has a ClusterGroup.
var _ = Describe("Clusters are in groups", Ordered, func() {
	const early, late = "early", "late"

	BeforeAll(func(ctx SpecContext) {
		inRing(ctx, imported(ctx), early)
		inRing(ctx, arrived(ctx), late)
		for _, ring := range []string{early, late} {
			group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: ring}}
			group.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"ring": ring}}
			Expect(world.Hub.Create(ctx, client.ClusterGroups, group)).To(Succeed())
			bundle := greeting(framework.Workspace, "for-"+ring, ring)
			bundle.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: ring}}
			Expect(world.Hub.Create(ctx, client.Bundles, bundle)).To(Succeed())
		}
	})

	AfterAll(func(ctx SpecContext) {
		for _, ring := range []string{early, late} {
			Expect(world.Hub.Delete(ctx, client.Bundles, framework.Workspace, "for-"+ring)).To(Succeed())
			Expect(world.Hub.Delete(ctx, client.ClusterGroups, framework.Workspace, ring)).To(Succeed())
		}
		inRing(ctx, imported(ctx), nil)
		inRing(ctx, arrived(ctx), nil)
		for downstream, cluster := range map[string]*fleet.Cluster{east: imported(ctx), west: arrived(ctx)} {
			for _, ring := range []string{early, late} {
				expectLeft(ctx, cluster, downstream, "for-"+ring)
			}
		}
	})

	It("which report their number of clusters, and that they are ready", func(ctx SpecContext) {
		_, err := world.ConfigMap(ctx, east, "for-early", "for-early", says(early))
		Expect(err).NotTo(HaveOccurred())
		_, err = world.ConfigMap(ctx, west, "for-late", "for-late", says(late))
		Expect(err).NotTo(HaveOccurred())
		for _, ring := range []string{early, late} {
			group := groupThat(ctx, ring, "one cluster on which everything is ready", func(g *fleet.ClusterGroup) bool {
				// The Bundles of a cluster count in its group: at least the agent's and the greeting.
				bundles, resources := g.Status.Summary, g.Status.ResourceCounts
				return allReady(1)(g) && bundles.DesiredReady >= 2 && bundles.Ready == bundles.DesiredReady && resources.Ready == resources.DesiredReady
			})
			Expect(group.Status.Display.ReadyClusters).To(Equal("1/1"))
			Expect(group.Status.Display.ReadyBundles).To(Equal(fmt.Sprintf("%[1]d/%[1]d", group.Status.Summary.DesiredReady)))
			Expect(group.Status.Display.State).To(BeEmpty())
			Expect(reasonOf(group.Status.Conditions, conditions.Processed)).To(BeEmpty())
		}
	})

	It("and a cluster whose label changes moves to the other group, with its Bundles", func(ctx SpecContext) {
		inRing(ctx, imported(ctx), late)
		_, err := world.ConfigMap(ctx, east, "for-late", "for-late", says(late))
		Expect(err).NotTo(HaveOccurred())
		expectLeft(ctx, imported(ctx), east, "for-early")
		Expect(groupThat(ctx, late, "two ready clusters", allReady(2)).Status.Display.ReadyClusters).To(Equal("2/2"))
		Expect(groupThat(ctx, early, "no clusters", allReady(0)).Status.Display.ReadyClusters).To(Equal("0/0"))
		// The other member is not affected.
		_, err = world.ConfigMap(ctx, west, "for-late", "for-late", says(late))
		Expect(err).NotTo(HaveOccurred())
	})

	It("and a group with an invalid selector reports it, keeps its deployments, and recovers", func(ctx SpecContext) {
		before, err := world.ConfigMap(ctx, west, "for-late", "for-late", says(late))
		Expect(err).NotTo(HaveOccurred())
		selects(ctx, late, map[string]any{"matchLabels": nil, "matchExpressions": []any{map[string]any{"key": "ring", "operator": "Resembles"}}})
		broken := groupThat(ctx, late, "the reason", func(g *fleet.ClusterGroup) bool {
			return reasonOf(g.Status.Conditions, conditions.Ready) == conditions.ReasonSelectorInvalid
		})
		Expect(conditions.Get(broken.Status.Conditions, conditions.Ready).Message).To(And(
			ContainSubstring(`"Resembles" is not a valid label selector operator`), ContainSubstring("correct it")))
		_, err = client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Bundles, Namespace: framework.Workspace, Name: "for-late", For: "the reason", Within: framework.Patience,
		}, func(b *fleet.Bundle) bool {
			return reasonOf(b.Status.Conditions, conditions.Ready) == conditions.ReasonSelectorInvalid && b.Status.Display.ReadyClusters == "2/2"
		})
		Expect(err).NotTo(HaveOccurred())

		selects(ctx, late, map[string]any{"matchExpressions": nil, "matchLabels": map[string]any{"ring": late}})
		groupThat(ctx, late, "two ready clusters again", allReady(2))
		after, err := world.ConfigMap(ctx, west, "for-late", "for-late", says(late))
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID), "what was deployed was replaced")
	})
})

// inRing sets a Cluster's label ring. Nil removes it.
func inRing(ctx SpecContext, cluster *fleet.Cluster, ring any) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"ring": ring}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(world.Hub.Patch(ctx, client.Clusters, cluster.Namespace, cluster.Name, patch)).To(Succeed())
}

// selects changes the selector of a group.
func selects(ctx SpecContext, group string, selector map[string]any) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"selector": selector}})
	Expect(err).NotTo(HaveOccurred())
	Expect(world.Hub.Patch(ctx, client.ClusterGroups, framework.Workspace, group, patch)).To(Succeed())
}

func groupThat(ctx SpecContext, name, what string, done func(*fleet.ClusterGroup) bool) *fleet.ClusterGroup {
	GinkgoHelper()
	group, err := client.Until(ctx, client.Await{
		From: world.Hub.Fleet, Resource: client.ClusterGroups, Namespace: framework.Workspace, Name: name, For: what, Within: framework.Patience,
	}, done)
	Expect(err).NotTo(HaveOccurred())
	return group
}

// allReady returns a function that matches a group with this number of Clusters, all ready.
func allReady(clusters int) func(*fleet.ClusterGroup) bool {
	return func(g *fleet.ClusterGroup) bool {
		ready := conditions.Get(g.Status.Conditions, conditions.Ready)
		return g.Status.ClusterCount == clusters && g.Status.NonReadyClusterCount == 0 && ready != nil && ready.Status == corev1.ConditionTrue
	}
}

// expectLeft waits until all objects of a Bundle are removed, on the hub and on the cluster.
func expectLeft(ctx SpecContext, cluster *fleet.Cluster, downstream, bundle string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		err := world.Hub.Get(ctx, client.BundleDeployments, cluster.Status.Namespace, bundle, &fleet.BundleDeployment{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "its BundleDeployment: %v", err)
		_, err = world.On(downstream).Kube.CoreV1().ConfigMaps(bundle).Get(ctx, bundle, metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "what it deployed: %v", err)
	}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
}
