// Package e2e tells the stories of users on real API servers: one file for each story. The clusters are
// those of dev/plane, and the product's binaries run in their pods.
package e2e

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Downstream clusters of the stories.
const (
	east  = "east"  // is imported
	west  = "west"  // comes by itself
	spare = "spare" // registers again and again; each story unregisters it
)

// checkin is the time between two heartbeats of the stories' agents.
const checkin = "5s"

// world is what all stories share.
var world *framework.World

// arrivedAs is the pod in which west's agent has joined.
var arrivedAs string

// joined are the clusters that have joined already, by the name of the downstream cluster.
var joined = map[string]*fleet.Cluster{}

func TestStories(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "user stories")
}

var _ = suite.Share(&world, framework.Options{
	Downstreams: []string{east, west, spare},
}, map[string]any{
	"agentCheckinInterval": checkin,
	"leaderElection":       map[string]any{"leaseDuration": "12s", "renewDeadline": "10s", "retryPeriod": "2s"},
})

// imported is the cluster east, joined by a kubeconfig Secret.
func imported(ctx SpecContext) *fleet.Cluster {
	GinkgoHelper()
	if joined[east] == nil {
		Expect(world.Import(ctx, east, map[string]string{"env": "dev"})).To(Succeed())
		cluster, err := world.Joined(ctx, framework.Workspace, east, framework.Named(east))
		Expect(err).NotTo(HaveOccurred())
		joined[east] = cluster
	}
	return joined[east]
}

// arrived is the cluster west, joined by `helm install fleet-agent` with a token's values.
func arrived(ctx SpecContext) *fleet.Cluster {
	GinkgoHelper()
	if joined[west] == nil {
		values, err := world.TokenValues(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		values["labels"] = map[string]any{"env": "prod"}
		values["agentCheckinInterval"] = checkin
		Expect(world.InstallAgent(ctx, west, values)).To(Succeed())
		joined[west], err = world.Joined(ctx, framework.Workspace, west, func(c *fleet.Cluster) bool { return c.Labels["env"] == "prod" })
		Expect(err).NotTo(HaveOccurred())
		pod, err := world.AgentPod(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		arrivedAs = pod.Name
	}
	return joined[west]
}

// unregister removes a Cluster from the hub, and its agent from spare.
func unregister(ctx SpecContext, cluster string) {
	GinkgoHelper()
	left, err := commandline.Run(ctx, world.User, "", "unregister", cluster, "-n", framework.Workspace, "--cluster-context", spare)
	Expect(err).NotTo(HaveOccurred())
	Expect(left.Code).To(Equal(exit.Done), left.Stderr)
}
