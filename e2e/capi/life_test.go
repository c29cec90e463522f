package capi_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// rotations is how often the kubeconfig is renewed.
const rotations = 5

// TestClusterLifecycle follows one cluster; its parts depend on each other.
func TestClusterLifecycle(t *testing.T) {
	first := tell(t, lasting)
	first.must(first.Cluster(lasting).Start(t.Context()))
	t.Cleanup(func() {
		if err := first.Cluster(lasting).End(); err != nil {
			t.Error(err)
		}
	})
	first.provide(lasting, map[string]string{"stage": "one"})
	first.agentOf(first.joined(lasting))
	for _, part := range []struct {
		name string
		tell func(*story)
	}{
		{"Rotations_CauseNoDownstreamRequest", (*story).rotates},
		{"Repair_UsesTheNewestKubeconfig", (*story).repairs},
		{"PausedCluster_IsNotFollowed", (*story).pauses},
		{"MovedCluster_KeepsItsClusterOfFleet", (*story).moves},
		{"DeletedCluster_EndsWithoutItsAPIServer", (*story).ends},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.tell(first.sub(t)) }) {
			return // the next part begins where this one should have ended
		}
	}
}

// requests returns who sent the requests of the controllers that a log has received since the last call.
func (s *story) requests(log *audit.Log) (users []string) {
	s.t.Helper()
	events, err := log.Next()
	s.must(err)
	for _, event := range events {
		if event.Counts() && strings.HasPrefix(event.UserAgent, "fleetcontroller/") {
			users = append(users, event.User.Username)
		}
	}
	return users
}

// quiet waits until the agent reports and the hub sends no more requests to its cluster.
func (s *story) quiet(log *audit.Log) {
	s.t.Helper()
	s.eventually(func(g Gomega) {
		s.requests(log)
		cluster := s.cluster(lasting)
		_, err := s.SeenAfter(s.ctx, cluster, cluster.Status.Agent.LastSeen.Time, framework.Patience)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.requests(log)).To(BeEmpty())
	})
}

// logOf returns the audit log of a cluster.
func (s *story) logOf(cluster string) *audit.Log {
	s.t.Helper()
	log, err := audit.NewLog(s.Cluster(cluster).AuditLog)
	s.must(err)
	return log
}

// handSeen hands the kubeconfig and waits until the hub has read the Secret.
func (s *story) handSeen(onHub *audit.Log, kubeconfig []byte) {
	s.t.Helper()
	_, err := onHub.Next()
	s.must(err)
	s.hand(lasting, kubeconfig)
	s.eventually(func(g Gomega) {
		events, err := onHub.Next()
		g.Expect(err).NotTo(HaveOccurred())
		read := func(e audit.Event) bool {
			return e.Verb == "get" && e.Object.Resource == "secrets" && e.Object.Name == lasting+"-kubeconfig" && strings.HasPrefix(e.UserAgent, "fleetcontroller/")
		}
		g.Expect(events).To(ContainElement(Satisfy(read)))
	})
}

func (s *story) rotates() {
	downstream, onHub := s.logOf(lasting), s.logOf(framework.HubName)
	s.quiet(downstream)
	before := s.agentOf(s.cluster(lasting))
	for range rotations {
		s.handSeen(onHub, s.kubeconfig(lasting, provider))
	}
	cluster := s.cluster(lasting)
	_, err := s.SeenAfter(s.ctx, cluster, cluster.Status.Agent.LastSeen.Time, framework.Patience)
	s.must(err)
	sent := s.requests(downstream)
	s.t.Logf("%d rotations, %d downstream requests of the hub", rotations, len(sent))
	s.Expect(sent).To(BeEmpty())
	s.Expect(s.agentOf(cluster)).To(Equal(before))
}

// repairs also shows that requests of the hub would be counted.
func (s *story) repairs() {
	const next = "capi-next-provider"
	downstream := s.logOf(lasting)
	s.handSeen(s.logOf(framework.HubName), s.kubeconfig(lasting, next))
	s.must(s.Hub.Patch(s.ctx, client.Clusters, framework.Workspace, lasting, []byte(`{"spec":{"redeployAgentGeneration":1}}`)))
	s.eventually(func(g Gomega) {
		g.Expect(s.cluster(lasting).Status.AgentDeployedGeneration).To(HaveValue(BeEquivalentTo(1)))
	})
	users := s.requests(downstream)
	s.Expect(users).NotTo(BeEmpty())
	s.Expect(users).To(HaveEach("system:serviceaccount:kube-system:" + next))
	s.agentOf(s.cluster(lasting))
}

func (s *story) pauses() {
	s.patch(lasting, `{"spec":{"paused":true},"metadata":{"labels":{"stage":"two"}}}`)
	s.eventually(func(g Gomega) { g.Expect(reason(s.cluster(lasting))).To(Equal(conditions.ReasonClusterPaused)) })
	s.Expect(s.cluster(lasting).Labels).To(HaveKeyWithValue("stage", "one"))
	s.patch(lasting, `{"spec":{"paused":false}}`)
	s.eventually(func(g Gomega) {
		g.Expect(s.cluster(lasting).Labels).To(HaveKeyWithValue("stage", "two"))
		g.Expect(reason(s.cluster(lasting))).To(Equal("True"))
	})
}

// moves does what clusterctl move does on the management cluster that a Cluster leaves, and then moves it back.
func (s *story) moves() {
	before := s.agentOf(s.cluster(lasting))
	uid := s.cluster(lasting).UID
	s.patch(lasting, `{"spec":{"paused":true}}`)
	s.patch(lasting, `{"metadata":{"annotations":{"clusterctl.cluster.x-k8s.io/delete-for-move":""},"finalizers":null}}`)
	s.must(s.capiClusters("v1beta2").Delete(s.ctx, lasting, metav1.DeleteOptions{}))
	s.removed(lasting)
	s.eventually(func(g Gomega) {
		g.Expect(s.cluster(lasting).Annotations).To(HaveKeyWithValue(annotation.CAPIKept, conditions.ReasonClusterPaused))
	})
	s.expectSame(before, uid)

	s.gone(s.resource(infrastructure, providerVersion, existingClusters).Delete(s.ctx, lasting, metav1.DeleteOptions{}))
	s.gone(s.resource(controlPlane, providerVersion, existingPlanes).Delete(s.ctx, lasting, metav1.DeleteOptions{}))
	s.gone(s.Hub.Kube.CoreV1().Secrets(framework.Workspace).Delete(s.ctx, lasting+"-kubeconfig", metav1.DeleteOptions{}))
	s.provide(lasting, map[string]string{"stage": "back"})
	s.eventually(func(g Gomega) {
		g.Expect(s.cluster(lasting).Labels).To(HaveKeyWithValue("stage", "back"))
		g.Expect(reason(s.cluster(lasting))).To(Equal("True"))
	})
	s.expectSame(before, uid)
}

// gone fails the test if a deletion has failed. The garbage collector may have deleted the object.
func (s *story) gone(err error) {
	s.t.Helper()
	if !apierrors.IsNotFound(err) {
		s.must(err)
	}
}

// expectSame waits until the agent has reported again, and checks that it and its Cluster are those before.
func (s *story) expectSame(before agent, uid any) {
	s.t.Helper()
	cluster := s.cluster(lasting)
	_, err := s.SeenAfter(s.ctx, cluster, cluster.Status.Agent.LastSeen.Time, framework.Patience)
	s.must(err)
	s.Expect(cluster.UID).To(BeEquivalentTo(uid), "the Cluster of Fleet was created again")
	s.Expect(s.agentOf(cluster)).To(Equal(before))
}

func (s *story) ends() {
	namespace := s.cluster(lasting).Status.Namespace
	s.must(s.Cluster(lasting).Pause())
	s.remove(lasting)
	s.eventually(func(g Gomega) { g.Expect(s.clusters()).NotTo(ContainElement(lasting)) })
	bindings, err := s.Hub.Kube.RbacV1().RoleBindings(namespace).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	s.Expect(bindings.Items).To(BeEmpty(), "rights of the agent are left in %s", namespace)
	s.eventually(func(g Gomega) {
		_, err := s.Hub.Kube.CoreV1().Namespaces().Get(s.ctx, namespace, metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "namespace %s exists: %v", namespace, err)
	})
}
