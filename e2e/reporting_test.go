package e2e

import (
	"strconv"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var _ = Describe("A cluster whose agent falls silent", Ordered, func() {
	// says waits for what a Cluster says of its agent.
	says := func(ctx SpecContext, cluster *fleet.Cluster, status corev1.ConditionStatus, reason string) *fleet.Cluster {
		GinkgoHelper()
		found, err := client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Clusters, Namespace: cluster.Namespace, Name: cluster.Name, For: "its agent: " + string(status), Within: framework.Patience,
		}, func(c *fleet.Cluster) bool {
			reporting, ready := conditions.Get(c.Status.Conditions, conditions.AgentReporting), conditions.Get(c.Status.Conditions, conditions.Ready)
			return reporting != nil && reporting.Status == status && reporting.Reason == reason && ready != nil && ready.Reason == reason
		})
		Expect(err).NotTo(HaveOccurred())
		return found
	}

	It("is reported as not ready, and recovers when the agent continues", func(ctx SpecContext) {
		cluster := says(ctx, imported(ctx), corev1.ConditionTrue, "")
		deployments := func() map[string]fleet.BundleDeploymentSpec {
			var list fleet.BundleDeploymentList
			Expect(world.Hub.List(ctx, client.BundleDeployments, cluster.Status.Namespace, &list)).To(Succeed())
			specs := map[string]fleet.BundleDeploymentSpec{}
			for _, bd := range list.Items {
				specs[bd.Name] = bd.Spec
			}
			return specs
		}
		pod, err := world.AgentPod(ctx, east)
		Expect(err).NotTo(HaveOccurred())
		pids, err := world.PodPIDs(east, pod.Namespace, pod.Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(pids).NotTo(BeEmpty())
		signal := func(signal syscall.Signal) {
			for _, pid := range pids {
				Expect(syscall.Kill(pid, signal)).To(Succeed(), strconv.Itoa(pid))
			}
		}
		DeferCleanup(func() {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGCONT) // one that was stopped for long has lost its lease, and ended
			}
		})

		By("freezing its process")
		signal(syscall.SIGSTOP)
		before := deployments()
		silent := says(ctx, cluster, corev1.ConditionFalse, conditions.ReasonAgentNotReporting)
		Expect(silent.Status.Display.State).To(Equal("WaitCheckIn"))
		Expect(deployments()).To(Equal(before), "what is deployed there stays as it is")
		Eventually(func(g Gomega) {
			events, err := world.Hub.Kube.CoreV1().Events(cluster.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + conditions.ReasonAgentNotReporting})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).To(ContainElement(HaveField("InvolvedObject.Name", cluster.Name)))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())

		By("continuing its process")
		signal(syscall.SIGCONT)
		healed := says(ctx, cluster, corev1.ConditionTrue, "")
		Expect(healed.Status.Display.State).NotTo(Equal("WaitCheckIn"))
		Expect(healed.Status.Agent.LastSeen.Time).To(BeTemporally(">", silent.Status.Agent.LastSeen.Time))
	})
})
