package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("The hub registers its own cluster", Ordered, func() {
	var local *fleet.Cluster

	It("registers without any action", func(ctx SpecContext) {
		var err error
		local, err = world.Joined(ctx, framework.LocalWorkspace, names.LocalCluster, framework.Named(names.LocalCluster))
		Expect(err).NotTo(HaveOccurred())
		Expect(local.Labels).To(HaveKeyWithValue("name", "local"))
		Expect(local.Spec.KubeConfigSecret).To(Equal(names.LocalKubeconfig))
		Expect(local.Status.Namespace).To(Equal("cluster-fleet-local-local-1a3d67d0a899"))
		Expect(local.Status.Agent.Namespace).To(Equal(names.SystemNamespace))
	})

	It("is in the group default", func(ctx SpecContext) {
		var group fleet.ClusterGroup
		Expect(world.Hub.Get(ctx, client.ClusterGroups, framework.LocalWorkspace, names.DefaultGroup, &group)).To(Succeed())
		Expect(group.Spec.Selector.MatchLabels).To(Equal(map[string]string{"name": "local"}))
	})

	It("runs the Bundles of its workspace", func(ctx SpecContext) {
		Expect(world.Hub.Create(ctx, client.Bundles, greeting(framework.LocalWorkspace, "greeting", "hello hub"))).To(Succeed())
		_, err := world.ConfigMap(ctx, framework.HubName, "greeting", "greeting", says("hello hub"))
		Expect(err).NotTo(HaveOccurred())
		ready, err := world.Ready(ctx, local, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(ready.Status.Display.ReadyBundles).To(Equal("2/2"))
	})
})
