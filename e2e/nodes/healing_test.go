//go:build linux

package nodes

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/controller"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// cutFor is the duration of the network cut between hub and east. The stories of west run meanwhile.
const cutFor = 2 * time.Minute

// cutAt is the start of the cut, uncut are east's registrations before it.
var (
	cutAt time.Time
	uncut map[string]string
)

func cutting() {
	It("drops packets in both directions", func(ctx SpecContext) {
		uncut = registrations(ctx, eastern)
		Expect(uncut).To(HaveLen(1))
		Expect(world.Node(framework.HubName).Cut(world.Node(east))).To(Succeed())
		cutAt = time.Now()
		// The Bundle is for east, which cannot get it yet.
		Expect(world.Hub.Create(ctx, client.Bundles, app("meanwhile", map[string]string{"env": east}))).To(Succeed())
	})
}

func missing() {
	It("is reported during the cut", func(ctx SpecContext) {
		silent := says(ctx, east, conditions.AgentReporting, conditions.ReasonAgentNotReporting, "")
		AddReportEntry("noticed", time.Since(cutAt).String())
		Expect(conditions.Get(silent.Status.Conditions, conditions.Ready)).To(HaveValue(HaveField("Status", corev1.ConditionFalse)))
		// The agent of west, which has just lost its identity, may not have registered again yet.
		Expect(current(ctx, local)).To(WithTransform(reports, Equal(corev1.ConditionTrue)))
	})
}

// reports returns the status of a Cluster's condition AgentReporting.
func reports(c *fleet.Cluster) corev1.ConditionStatus {
	return conditions.Get(c.Status.Conditions, conditions.AgentReporting).Status
}

// lostBy is what ran on west when its agent lost its identity, and registeredBefore are its registrations before that.
var lostBy, registeredBefore map[string]string

func losingIdentity() {
	It("loses its Secret and its account", func(ctx SpecContext) {
		lostBy, registeredBefore = podUIDs(ctx, west), registrations(ctx, western)
		Expect(registeredBefore).To(HaveLen(1))
		for name, uid := range registeredBefore {
			accounts := world.Hub.Kube.CoreV1().ServiceAccounts(western.Status.Namespace)
			Expect(accounts.Delete(ctx, names.RequestAccount(name, uid), metav1.DeleteOptions{})).To(Succeed())
		}
		Expect(world.On(west).Kube.CoreV1().Secrets(names.SystemNamespace).Delete(ctx, names.Agent, metav1.DeleteOptions{})).To(Succeed())
	})
}

func returning() {
	It("returns by itself to its Cluster, and no pod was replaced or restarted", func(ctx SpecContext) {
		Eventually(func() map[string]string { return registrations(ctx, western) }).WithContext(ctx).WithTimeout(patience).
			Should(And(HaveLen(1), Not(Equal(registeredBefore))), "its new credential is in use")
		Eventually(func() *fleet.Cluster { return current(ctx, western) }).WithContext(ctx).WithTimeout(patience).
			Should(WithTransform(reports, Equal(corev1.ConditionTrue)))
		Expect(current(ctx, western).UID).To(Equal(western.UID))
		Expect(podUIDs(ctx, west)).To(Equal(lostBy))
	})
}

// podUIDs returns the UIDs and restarts of the agent's pod and those of the story's Bundle, by name.
func podUIDs(ctx context.Context, cluster string) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, namespace := range []string{names.SystemNamespace, "app-" + cluster} {
		list, err := world.On(cluster).Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range list.Items {
			found[pod.Name] = fmt.Sprint(pod.UID, ", restarted ", framework.Restarts(&pod))
		}
	}
	return found
}

func losingAgent() {
	It("is replaced, with the same identity", func(ctx SpecContext) {
		known := registrations(ctx, western)
		pod := theirs(ctx, west, agentPods)[0]
		lost := time.Now()
		Expect(world.On(west).Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
		heartbeat(ctx, western, lost.Add(time.Second))
		runs(ctx, west, names.SystemNamespace, names.Agent, 1)
		Expect(theirs(ctx, west, agentPods)[0].UID).NotTo(Equal(pod.UID))
		Expect(registrations(ctx, western)).To(Equal(known))
	})
}

func restarting() {
	It("returns with all its workloads and the same identity", func(ctx SpecContext) {
		known := registrations(ctx, western)
		pod := theirs(ctx, west, agentPods)[0]
		Expect(world.Node(west).Restart(ctx)).To(Succeed())
		back := time.Now()
		heartbeat(ctx, western, back)
		runs(ctx, west, names.SystemNamespace, names.Agent, 1)
		runs(ctx, west, "app-"+west, "app-"+west, 2)
		Expect(theirs(ctx, west, agentPods)[0].UID).To(Equal(pod.UID), "the same pod, started again")
		Expect(registrations(ctx, western)).To(Equal(known))
		delivers(ctx, west, "after-restart", map[string]string{"env": west})
	})
}

func losingController() {
	It("is replaced, and continues", func(ctx SpecContext) {
		known := registrations(ctx, western)
		pod := theirs(ctx, framework.HubName, controllerPods)[0]
		Expect(world.Hub.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
		delivers(ctx, west, "after-controller", map[string]string{"env": west})
		runs(ctx, framework.HubName, names.SystemNamespace, "fleet-controller", 1)
		Expect(theirs(ctx, framework.HubName, controllerPods)[0].UID).NotTo(Equal(pod.UID))
		Expect(registrations(ctx, western)).To(Equal(known))
	})
}

func losingLeader() {
	It("are started by helm upgrade, for controllers and agents", func(ctx SpecContext) {
		Expect(release(framework.HubName, "fleet", hubValues(map[string]any{
			"controller": map[string]any{"replicas": 2}, "agent": map[string]any{"replicas": 2},
		})).Install(ctx)).To(Succeed())
		runs(ctx, framework.HubName, names.SystemNamespace, "fleet-controller", 2)
	})

	It("continues with the other replica", func(ctx SpecContext) {
		known := registrations(ctx, western)
		first := leader(ctx, framework.HubName, controller.Lease)
		lost := time.Now()
		kill(ctx, framework.HubName, first)
		delivers(ctx, west, "after-leader", map[string]string{"env": west})
		AddReportEntry("takeover", time.Since(lost).String())
		Expect(leader(ctx, framework.HubName, controller.Lease)).NotTo(Equal(first))
		runs(ctx, framework.HubName, names.SystemNamespace, "fleet-controller", 2)
		Expect(registrations(ctx, western)).To(Equal(known))
	})
}

func losingAgentLeader() {
	It("continues with the other replica", func(ctx SpecContext) {
		known := registrations(ctx, western)
		runs(ctx, west, names.SystemNamespace, names.Agent, 2)
		first := leader(ctx, west, names.Agent)
		lost := time.Now()
		kill(ctx, west, first)
		heartbeat(ctx, western, lost.Add(time.Second))
		AddReportEntry("takeover", time.Since(lost).String())
		Expect(leader(ctx, west, names.Agent)).NotTo(Equal(first))
		runs(ctx, west, names.SystemNamespace, names.Agent, 2)
		Expect(registrations(ctx, western)).To(Equal(known))
	})
}

func healing() {
	It("has been cut for two minutes", func(ctx SpecContext) {
		select {
		case <-time.After(time.Until(cutAt.Add(cutFor))):
		case <-ctx.Done():
		}
		Expect(current(ctx, eastern).Status.Agent.LastSeen.Time).To(BeTemporally("<=", cutAt))
	})

	It("continues by itself, with the same identity", func(ctx SpecContext) {
		Expect(world.Node(framework.HubName).Heal(world.Node(east))).To(Succeed())
		healed := time.Now()
		heartbeat(ctx, eastern, healed.Add(-time.Second))
		AddReportEntry("first heartbeat after the cut", time.Since(healed).String())
		runs(ctx, east, "meanwhile", "meanwhile", 2)
		AddReportEntry("what was missed", time.Since(healed).String())
		Expect(registrations(ctx, eastern)).To(Equal(uncut))
		Expect(current(ctx, eastern).UID).To(Equal(eastern.UID))
		_, err := world.Ready(ctx, eastern, 2)
		Expect(err).NotTo(HaveOccurred())
		_, err = client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Clusters, Namespace: eastern.Namespace, Name: east, For: "the hub says that its agent reports", Within: patience,
		}, func(c *fleet.Cluster) bool {
			reporting, ready := conditions.Get(c.Status.Conditions, conditions.AgentReporting), conditions.Get(c.Status.Conditions, conditions.Ready)
			return reporting != nil && reporting.Status == corev1.ConditionTrue && ready != nil && ready.Status == corev1.ConditionTrue
		})
		Expect(err).NotTo(HaveOccurred())
	})
}
