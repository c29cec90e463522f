package onecluster

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("A cluster whose kubeconfig the hub was given leaves no trace", Ordered, func() {
	var before inventory.Inventory

	AfterAll(func(ctx SpecContext) { removeAgent(ctx, east) })

	It("joins and runs something", func(ctx SpecContext) {
		Expect(world.Hub.EnsureNamespace(ctx, framework.Workspace)).To(Succeed())
		kubeconfig := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: "east-kubeconfig"},
			Data:       map[string][]byte{protocol.KubeconfigValueKey: world.Cluster(downstream).Kubeconfig},
		}
		_, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Create(ctx, kubeconfig, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Hub.Create(ctx, client.Bundles, greeting(east))).To(Succeed())
		before = atRest(ctx)
		Expect(world.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: east, Labels: map[string]string{"env": east}},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: kubeconfig.Name},
		})).To(Succeed())
		expectAtWork(ctx, east, framework.Named(east))
	})

	It("is deleted, and the hub has what it had before", func(ctx SpecContext) {
		Expect(world.Hub.Delete(ctx, client.Clusters, framework.Workspace, east)).To(Succeed())
		expectSame(ctx, before)
	})

	It("keeps its workloads running", func(ctx SpecContext) { expectUntouched(ctx, east) })
})

var _ = Describe("A cluster that registered with a token leaves no trace", Ordered, func() {
	var before, beforeToken inventory.Inventory
	var name string // of the Cluster

	AfterAll(func(ctx SpecContext) { removeAgent(ctx, name) })

	It("joins and runs something", func(ctx SpecContext) {
		Expect(world.Hub.Create(ctx, client.Bundles, greeting(west))).To(Succeed())
		beforeToken = atRest(ctx)
		values, err := world.TokenValues(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		before = atRest(ctx)
		values["labels"], values["agentCheckinInterval"] = map[string]any{"env": west}, "5s"
		Expect(world.InstallAgent(ctx, downstream, values)).To(Succeed())
		name = expectAtWork(ctx, west, func(c *fleet.Cluster) bool { return c.Labels["env"] == west })
	})

	It("is deleted, and the hub has what it had before, including the token", func(ctx SpecContext) {
		Expect(world.Hub.Delete(ctx, client.Clusters, framework.Workspace, name)).To(Succeed())
		expectSame(ctx, before)
	})

	It("keeps its workloads running", func(ctx SpecContext) { expectUntouched(ctx, west) })

	It("leaves no trace of its token after that was deleted", func(ctx SpecContext) {
		Expect(world.Hub.Delete(ctx, client.Tokens, framework.Workspace, west)).To(Succeed())
		expectSame(ctx, beforeToken)
	})
})

// expectAtWork waits until the cluster runs its greeting and looks after its own agent. It returns the Cluster's name.
func expectAtWork(ctx context.Context, called string, is func(*fleet.Cluster) bool) string {
	GinkgoHelper()
	cluster, err := world.Joined(ctx, framework.Workspace, called, is)
	Expect(err).NotTo(HaveOccurred())
	_, err = world.ConfigMap(ctx, downstream, called, called, saysHello(called))
	Expect(err).NotTo(HaveOccurred())
	_, err = world.Ready(ctx, cluster, 1)
	Expect(err).NotTo(HaveOccurred())
	_, _, err = world.Managed(ctx, downstream, cluster)
	Expect(err).NotTo(HaveOccurred())
	return cluster.Name
}

// expectUntouched waits until an agent has understood that it is nobody's any more, and looks at what it has left.
func expectUntouched(ctx context.Context, called string) {
	GinkgoHelper()
	var log string
	Eventually(func(g Gomega) {
		pod, err := world.AgentPod(ctx, downstream)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(framework.Restarts(pod)).To(BeZero())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionFalse))))
		content, err := world.PodLog(downstream, pod.Namespace, pod.Name)
		g.Expect(err).NotTo(HaveOccurred())
		log = string(content)
		g.Expect(log).To(ContainSubstring("the hub rejects the agent's credential"))
	}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	kept, err := world.On(downstream).Kube.CoreV1().ConfigMaps(called).Get(ctx, called, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(saysHello(called)(kept)).To(BeTrue())
	// It says so when something changes, not with each question.
	Expect(strings.Count(log, "level=WARN")+strings.Count(log, "level=ERROR")).To(BeNumerically("<", 20), log)
}
