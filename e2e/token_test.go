package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("Only the cluster reaches the hub: helm install fleet-agent with a token's values", Ordered, func() {
	var cluster *fleet.Cluster

	It("joins as a Cluster named after its client ID", func(ctx SpecContext) {
		cluster = arrived(ctx)
		system, err := world.On(west).Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Spec.ClientID).To(Equal(string(system.UID)))
		Expect(cluster.Name).To(Equal(names.Cluster(string(system.UID))))
	})

	It("has the labels of its values, the name of its first pod, and the UID of its token", func(ctx SpecContext) {
		var tokens fleet.ClusterRegistrationTokenList
		Expect(world.Hub.List(ctx, client.Tokens, framework.Workspace, &tokens)).To(Succeed())
		var uids []string
		for _, token := range tokens.Items {
			uids = append(uids, string(token.UID))
		}
		joinedWith := cluster.Labels[fleet.LabelTokenUID]
		Expect(uids).To(ContainElement(joinedWith))
		Expect(cluster.Labels).To(Equal(map[string]string{
			"env": "prod", fleet.LabelCluster: cluster.Name, fleet.LabelCreatedByAgentPod: arrivedAs,
			fleet.LabelTokenUID: joinedWith,
		}))
	})

	It("runs plain YAML", func(ctx SpecContext) {
		bundle := only(greeting(framework.Workspace, "for-prod", "hello"), map[string]string{"env": "prod"})
		Expect(world.Hub.Create(ctx, client.Bundles, bundle)).To(Succeed())
		_, err := world.ConfigMap(ctx, west, "for-prod", "for-prod", says("hello"))
		Expect(err).NotTo(HaveOccurred())
		_, err = world.Ready(ctx, cluster, 1)
		Expect(err).NotTo(HaveOccurred())
	})

	It("refuses to be installed under another name, and says how", func(ctx SpecContext) {
		values, err := world.TokenValues(ctx, "unused")
		Expect(err).NotTo(HaveOccurred())
		values["internal"] = map[string]any{"managedReleaseName": "another"}
		Expect(world.InstallAgent(ctx, spare, values)).To(MatchError(ContainSubstring("another")))
	})
})

var _ = Describe("A cluster is expected: a Cluster with its client ID exists before the agent", Ordered, func() {
	const north = "north"
	var expected *fleet.Cluster

	AfterAll(func(ctx SpecContext) { unregister(ctx, north) })

	It("is found by its client ID", func(ctx SpecContext) {
		expected = &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: north, Labels: map[string]string{"env": "test"}},
			Spec:       fleet.ClusterSpec{ClientID: "the-northern-one"},
		}
		Expect(world.Hub.Create(ctx, client.Clusters, expected)).To(Succeed())
		values, err := world.TokenValues(ctx, north)
		Expect(err).NotTo(HaveOccurred())
		values["clientID"] = expected.Spec.ClientID
		values["labels"] = map[string]any{"env": "ignored"}
		Expect(world.InstallAgent(ctx, spare, values)).To(Succeed())

		cluster, err := world.Joined(ctx, framework.Workspace, north, framework.Named(north))
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.UID).To(Equal(expected.UID))
		Expect(cluster.Labels).To(Equal(map[string]string{"env": "test"}), "the labels of a Cluster that is there are its own")
	})

	It("has not created another Cluster", func(ctx SpecContext) {
		var clusters fleet.ClusterList
		Expect(world.Hub.List(ctx, client.Clusters, framework.Workspace, &clusters)).To(Succeed())
		for _, cluster := range clusters.Items {
			Expect(cluster.Spec.ClientID == expected.Spec.ClientID).To(Equal(cluster.Name == north), cluster.Name)
		}
	})
})
