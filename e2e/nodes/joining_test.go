//go:build linux

package nodes

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// before are the objects of each cluster before the installation.
var before = map[string]inventory.Inventory{}

func installing() {
	It("starts with the charts", func(ctx SpecContext) {
		for _, n := range world.Nodes {
			taken, err := inventory.Take(ctx, n.Config())
			Expect(err).NotTo(HaveOccurred())
			before[n.Name] = taken
		}
		Expect(release(framework.HubName, "fleet-crd", nil).Install(ctx)).To(Succeed())
		Expect(world.Hub.EnsureNamespace(ctx, framework.Workspace)).To(Succeed())
		settle(ctx)
		began := time.Now()
		Expect(release(framework.HubName, "fleet", hubValues(nil)).Install(ctx)).To(Succeed())
		var err error
		local, err = world.Joined(ctx, framework.LocalWorkspace, names.LocalCluster, framework.Named(names.LocalCluster))
		Expect(err).NotTo(HaveOccurred())
		firstHeartbeat = time.Since(began)
		AddReportEntry("first heartbeat", firstHeartbeat.String())
	})

	It("runs the controller as a pod that is ready and was never restarted", func(ctx SpecContext) {
		runs(ctx, framework.HubName, names.SystemNamespace, "fleet-controller", 1)
		for _, pod := range theirs(ctx, framework.HubName, controllerPods) {
			Expect(framework.Restarts(&pod)).To(BeZero())
		}
	})
}

func registeringItself() {
	It("runs an agent of its own", func(ctx SpecContext) {
		Expect(local.Labels).To(HaveKeyWithValue("name", "local"))
		runs(ctx, framework.HubName, local.Status.Agent.Namespace, names.Agent, 1)
		Expect(registrations(ctx, local)).To(HaveLen(1))
	})
}

func importing() {
	It("starts an agent there", func(ctx SpecContext) {
		Expect(world.Import(ctx, east, map[string]string{"env": east})).To(Succeed())
		var err error
		eastern, err = world.Joined(ctx, framework.Workspace, east, framework.Named(east))
		Expect(err).NotTo(HaveOccurred())
		runs(ctx, east, names.SystemNamespace, names.Agent, 1)
	})
}

func arriving() {
	It("joins by helm install fleet-agent, with a token's values", func(ctx SpecContext) {
		values, err := world.TokenValues(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		values["labels"] = map[string]any{"env": west}
		values["agentCheckinInterval"] = checkin
		Expect(world.InstallAgent(ctx, west, values)).To(Succeed())
		western, err = world.Joined(ctx, framework.Workspace, west, func(c *fleet.Cluster) bool { return c.Labels["env"] == west })
		Expect(err).NotTo(HaveOccurred())
	})

	It("is then managed by the hub, in the same pod", func(ctx SpecContext) {
		_, deployment, err := world.Managed(ctx, west, western)
		Expect(err).NotTo(HaveOccurred())
		Expect(deployment.Annotations).To(HaveKeyWithValue(framework.RevisionAnnotation, "1"))
	})
}

func running() {
	It("runs its pods on the selected clusters", func(ctx SpecContext) {
		for _, cluster := range []string{east, west} {
			Expect(world.Hub.Create(ctx, client.Bundles, app("app-"+cluster, map[string]string{"env": cluster}))).To(Succeed())
		}
		for _, cluster := range []string{east, west} {
			runs(ctx, cluster, "app-"+cluster, "app-"+cluster, 2)
		}
	})

	It("is ready on the hub when its pods are ready", func(ctx SpecContext) {
		for _, cluster := range []*fleet.Cluster{eastern, western} {
			_, err := world.Ready(ctx, cluster, 1)
			Expect(err).NotTo(HaveOccurred())
		}
	})
}
