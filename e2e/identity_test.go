package e2e

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// outage is the duration of the hub's outage. It is longer than the renewDeadline of the suite, so that the controllers
// lose their leases.
const outage = 15 * time.Second

var _ = Describe("A cluster stays registered", Ordered, func() {
	// now returns the current Cluster.
	now := func(ctx SpecContext, name string) *fleet.Cluster {
		GinkgoHelper()
		var cluster fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, name, &cluster)).To(Succeed())
		return &cluster
	}

	It("when its agent is killed: it keeps its identity", func(ctx SpecContext) {
		cluster := now(ctx, arrived(ctx).Name)
		before, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
		Expect(err).NotTo(HaveOccurred())
		pod, err := world.AgentPod(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		restarts := framework.Restarts(pod)

		Expect(world.KillPod(ctx, west, pod.Namespace, pod.Name)).To(Succeed())
		killed := now(ctx, cluster.Name).Status.Agent.LastSeen.Time
		_, err = client.Until(ctx, client.Await{
			From: world.On(west).Kube.CoreV1().RESTClient(), Resource: "pods", Namespace: pod.Namespace, Name: pod.Name, For: "a restart of the agent", Within: framework.Patience,
		}, func(p *corev1.Pod) bool { return framework.Restarts(p) > restarts })
		Expect(err).NotTo(HaveOccurred())
		_, err = world.SeenAfter(ctx, cluster, killed, framework.Patience)
		Expect(err).NotTo(HaveOccurred())

		after, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal(before), "the agent registered anew")
	})

	// loseIdentity deletes the agent's credential and gives it a bootstrap secret of another token.
	loseIdentity := func(ctx SpecContext, token string) {
		GinkgoHelper()
		secrets := world.On(west).Kube.CoreV1().Secrets(names.SystemNamespace)
		Expect(secrets.Delete(ctx, names.Agent, metav1.DeleteOptions{})).To(Succeed())
		values, err := world.TokenValues(ctx, token)
		Expect(err).NotTo(HaveOccurred())
		bootstrap := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.AgentBootstrap}, StringData: map[string]string{}}
		for key, value := range values {
			if text, ok := value.(string); ok {
				bootstrap.StringData[key] = text
			}
		}
		_, err = secrets.Create(ctx, bootstrap, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	// returned waits until the agent reports with another registration than those before.
	returned := func(ctx SpecContext, cluster *fleet.Cluster, before []string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			after, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after).To(HaveLen(1))
			g.Expect(after).NotTo(Equal(before))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		_, err := world.SeenAfter(ctx, cluster, now(ctx, cluster.Name).Status.Agent.LastSeen.Time, framework.Patience)
		Expect(err).NotTo(HaveOccurred())
	}

	It("when its identity is lost: its key and a bootstrap secret of any token are enough", func(ctx SpecContext) {
		cluster := now(ctx, arrived(ctx).Name)
		before, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
		Expect(err).NotTo(HaveOccurred())
		pod, err := world.AgentPod(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) { // the key is pinned soon after the first report
			cluster = now(ctx, cluster.Name)
			g.Expect(cluster.Annotations).To(HaveKey(annotation.AgentKey))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		loseIdentity(ctx, "west-again")

		By("registering again, and removing the older registration once the new identity is used")
		returned(ctx, cluster, before)
		Expect(now(ctx, cluster.Name).Annotations).To(HaveKeyWithValue(annotation.AgentKey, cluster.Annotations[annotation.AgentKey]))

		By("keeping the Cluster and the process")
		Expect(now(ctx, cluster.Name).UID).To(Equal(cluster.UID))
		same, err := world.AgentPod(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		Expect(same.UID).To(Equal(pod.UID))
		Expect(framework.Restarts(same)).To(Equal(framework.Restarts(pod)), "the agent was restarted")
	})

	It("when its identity is lost and there is no bootstrap secret: it returns by itself", func(ctx SpecContext) {
		cluster := now(ctx, arrived(ctx).Name)
		before, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
		Expect(err).NotTo(HaveOccurred())
		pod, err := world.AgentPod(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.On(west).Kube.CoreV1().Secrets(names.SystemNamespace).Delete(ctx, names.Agent, metav1.DeleteOptions{})).To(Succeed())

		returned(ctx, cluster, before)
		Expect(now(ctx, cluster.Name).UID).To(Equal(cluster.UID))
		same, err := world.AgentPod(ctx, west)
		Expect(err).NotTo(HaveOccurred())
		Expect(framework.Restarts(same)).To(Equal(framework.Restarts(pod)), "the agent was restarted")
	})

	It("when its key is lost, too: the operator confirms it", func(ctx SpecContext) {
		cluster := now(ctx, arrived(ctx).Name)
		before, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
		Expect(err).NotTo(HaveOccurred())
		recovery := world.On(west).Kube.CoreV1().Secrets(metav1.NamespaceSystem)
		Expect(recovery.Delete(ctx, names.RecoverySecret(names.SystemNamespace), metav1.DeleteOptions{})).To(Succeed())
		loseIdentity(ctx, "west-once-more")

		By("waiting, because neither the token nor the new key says anything about the agent that was there")
		var asks string
		Eventually(func(g Gomega) {
			events, err := world.Hub.Kube.CoreV1().Events(framework.Workspace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + conditions.ReasonTakeoverPending})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).To(ContainElement(HaveField("InvolvedObject", And(HaveField("Kind", "Cluster"), HaveField("Name", cluster.Name)))))
			after, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
			g.Expect(err).NotTo(HaveOccurred())
			others := slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
			g.Expect(others).To(HaveLen(1))
			asks = others[0]
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		confirm := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation.ConfirmTakeover, asks)
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, cluster.Name, []byte(confirm))).To(Succeed())

		By("registering again, and pinning the new key")
		returned(ctx, cluster, before)
		Eventually(func(g Gomega) {
			g.Expect(now(ctx, cluster.Name).Annotations[annotation.AgentKey]).NotTo(Or(BeEmpty(), Equal(cluster.Annotations[annotation.AgentKey])))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("when the hub is down for longer than a lease: identities are kept, and no agent restarts", func(ctx SpecContext) {
		clusters := map[string]*fleet.Cluster{east: now(ctx, imported(ctx).Name), west: now(ctx, arrived(ctx).Name)}
		pods := map[string]*corev1.Pod{}
		registrations := map[string][]string{}
		for name, cluster := range clusters {
			var err error
			pods[name], err = world.AgentPod(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			registrations[name], err = world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
			Expect(err).NotTo(HaveOccurred())
		}

		Expect(world.Plane.Hub.Pause()).To(Succeed())
		select {
		case <-time.After(outage):
		case <-ctx.Done():
		}
		Expect(world.Plane.Hub.Resume(ctx)).To(Succeed())

		for name, cluster := range clusters {
			_, err := world.SeenAfter(ctx, cluster, now(ctx, cluster.Name).Status.Agent.LastSeen.Time, 3*framework.Patience)
			Expect(err).NotTo(HaveOccurred())
			after, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
			Expect(err).NotTo(HaveOccurred())
			Expect(after).To(Equal(registrations[name]), "%s registered anew", name)
			pod, err := world.AgentPod(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(pod.UID).To(Equal(pods[name].UID), "%s has another pod", name)
			Expect(framework.Restarts(pod)).To(Equal(framework.Restarts(pods[name])), "the agent of %s was restarted", name)
		}
	})
})
