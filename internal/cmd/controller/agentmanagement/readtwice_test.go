package agentmanagement_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An agent that was killed before it stored its credential reads it again. An agent that reads it after its first heartbeat
// finds none, and keeps what it has.
func TestAgentReadsItsCredentialTwice_TheSameUntilItsUse(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-twice")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	agent := register(t, holder, ws, "client-twice", "random")
	first, err := secret(t.Context(), holder, registration, agent.secret)
	g.Expect(err).NotTo(HaveOccurred())
	register(t, holder, ws, "client-between", "random") // the controller has seen all events until now
	again, err := secret(t.Context(), holder, registration, agent.secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.ResourceVersion).To(Equal(first.ResourceVersion))

	g.Expect(agent.beat(t.Context(), agent.credential.ClusterName, time.Now())).To(Succeed())
	eventually(t, func(g Gomega) {
		_, err := secret(t.Context(), holder, registration, agent.secret)
		g.Expect(err).To(Or(notFound(), forbidden()))
		_, err = secret(t.Context(), hub, registration, agent.secret) // the right to read it may go first
		g.Expect(err).To(notFound())
	})
	g.Expect(agent.client.List(t.Context(), client.BundleDeployments, agent.credential.DeploymentNamespace, &fleet.BundleDeploymentList{})).To(Succeed())
	g.Expect(agent.beat(t.Context(), agent.credential.ClusterName, time.Now().Add(time.Minute))).To(Succeed())
	_, err = secret(t.Context(), hub, registration, agent.secret)
	g.Expect(err).To(notFound(), "it was made again")
	g.Expect(clustersIn(t, hub, ws)).To(ConsistOf(HaveField("Name", names.Cluster("client-twice")), HaveField("Name", names.Cluster("client-between"))))
}
