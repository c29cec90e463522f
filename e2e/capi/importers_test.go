package capi_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// importCluster creates a Cluster that names the kubeconfig Secret of Cluster API, as users and other importers do.
func (s *story) importCluster(ctx context.Context, name, of string) error {
	return s.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: of + "-kubeconfig"},
	})
}

// rejected waits until the hub has refused to import a cluster a second time, and checks that it has no agent.
func (s *story) rejected(name string) {
	s.t.Helper()
	s.eventually(func(g Gomega) {
		cluster := s.cluster(name)
		imported := conditions.Get(cluster.Status.Conditions, conditions.Imported)
		g.Expect(imported).NotTo(BeNil())
		g.Expect(imported.Status).To(Equal(corev1.ConditionFalse))
		g.Expect(imported.Reason).To(Equal(conditions.ReasonImportedTwice), imported.Message)
	})
	cluster := s.cluster(name)
	s.Expect(cluster.Status.Agent.LastSeen.IsZero()).To(BeTrue(), "an agent reports as the rejected Cluster")
	s.Expect(cluster.Status.AgentDeployedGeneration).To(BeNil(), "an agent was installed for the rejected Cluster")
}

// Another importer names the Secret of each Cluster of Cluster API in a Cluster of its own. It comes after the hub, and
// it does not give up.
func TestTwoImporters_OneClusterAndTheSamePods(t *testing.T) {
	const other = "addon-" + raced
	s := tell(t, member)
	defer s.leave(raced, raced)
	s.provide(raced, nil)
	cluster := s.joined(raced)
	s.deliver(raced, raced)
	agent, pods := s.agentOf(cluster), s.pods(raced)
	s.must(s.importCluster(s.ctx, other, raced))
	s.rejected(other)
	s.expectUntouched(raced, raced, agent, pods)
	s.must(s.Hub.Delete(s.ctx, client.Clusters, framework.Workspace, other))
	s.eventually(func(g Gomega) { g.Expect(s.clusters()).NotTo(ContainElement(other)) })
	s.expectUntouched(raced, raced, agent, pods)
	s.Expect(s.clusters()).To(ContainElement(raced))
}

// Both importers begin when the provider writes the Secret. Which one wins is not determined.
func TestTwoImportersAtOnce_OneOfThemWins(t *testing.T) {
	const other = "addon-" + contested
	s := tell(t, member)
	s.describe(contested, "v1beta2", nil)
	s.initialize(contested)
	s.eventually(func(g Gomega) {
		g.Expect(s.events(g, contested)).To(ContainElement(conditions.ReasonKubeconfigMissing))
	})
	kubeconfig := s.kubeconfig(contested, provider)
	imported := make(chan error, 1)
	go func() { imported <- s.importCluster(s.ctx, other, contested) }()
	s.hand(contested, kubeconfig)
	s.must(<-imported)

	var winner string
	defer func() { s.leave(contested, winner) }()
	s.eventually(func(g Gomega) {
		var seen []string
		for _, cluster := range s.listed() {
			if (cluster.Name == other || cluster.Name == contested) && !cluster.Status.Agent.LastSeen.IsZero() {
				seen = append(seen, cluster.Name)
			}
		}
		g.Expect(seen).To(HaveLen(1))
		winner = seen[0]
	})
	t.Logf("%s has won", winner)
	s.deliver(contested, winner)
	agent, pods := s.agentOf(s.cluster(winner)), s.pods(contested)
	if winner == contested {
		s.rejected(other)
	} else {
		s.eventually(func(g Gomega) { g.Expect(s.clusters()).NotTo(ContainElement(contested)) })
	}
	s.expectUntouched(contested, winner, agent, pods)
	if winner == contested { // the other one would be imported next
		s.must(s.Hub.Delete(s.ctx, client.Clusters, framework.Workspace, other))
	}
}

func TestClusterImportedByHand_KeepsItsAgent(t *testing.T) {
	const own = "by-a-user"
	s := tell(t, member)
	defer s.leave(byHand, own)
	s.describe(byHand, "v1beta2", map[string]string{"env": "dev"})
	s.hand(byHand, s.kubeconfig(byHand, provider))
	s.must(s.importCluster(s.ctx, own, byHand))
	cluster := s.joined(own)
	s.deliver(byHand, own)
	agent, pods := s.agentOf(cluster), s.pods(byHand)

	s.initialize(byHand)
	s.eventually(func(g Gomega) { g.Expect(s.cluster(own).Annotations).To(HaveKey(annotation.CAPIImported)) })
	s.eventually(func(g Gomega) { g.Expect(s.events(g, byHand)).To(ContainElement(conditions.ReasonImportedTwice)) })
	s.expectUntouched(byHand, own, agent, pods)
	s.Expect(s.clusters()).NotTo(ContainElement(byHand))
	s.Expect(s.cluster(own).Labels).NotTo(HaveKey("env"), "labels of a Cluster that a user created are the user's")

	s.remove(byHand)
	s.expectUntouched(byHand, own, agent, pods)
}
