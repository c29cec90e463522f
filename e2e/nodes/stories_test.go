//go:build linux

package nodes

import (
	. "github.com/onsi/ginkgo/v2"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The Clusters of the stories, once they have joined.
var local, eastern, western, southern *fleet.Cluster

// The stories share the nodes, so they are told in this order: each finds what the ones before have left.
var _ = Describe("On real nodes", Ordered, ContinueOnFailure, func() {
	Describe("a hub is installed", installing)
	Describe("the hub registers itself", registeringItself)
	Describe("the hub reaches a cluster", importing)
	Describe("only the cluster reaches the hub", arriving)
	Describe("a Bundle has a Deployment", running)
	Describe("an agent gets settings", setting)
	Describe("the network is cut between hub and east", cutting)
	Describe("a namespace has rules for pods", restricted)
	Describe("an agent loses its identity", losingIdentity)
	Describe("a user has only the command line", typing)
	Describe("an agent does not report to the hub", missing)
	Describe("the user looks at the clusters", inspecting)
	Describe("the user unregisters a cluster", unregistering)
	Describe("the agent without an identity", returning)
	Describe("an agent's pod is deleted", losingAgent)
	Describe("a node is restarted", restarting)
	Describe("the controller's pod is deleted", losingController)
	Describe("two controller replicas, and the leader is killed", losingLeader)
	Describe("two agent replicas, and the leader is killed", losingAgentLeader)
	Describe("the network heals after two minutes", healing)
	Describe("a Cluster is deleted", leaving)
	Describe("helm uninstall fleet-agent", uninstallingAgent)
	Describe("helm uninstall fleet", uninstallingHub)
	Describe("the process that started a lab is killed", dying)
})
