package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// families are the metrics of one scrape.
type families = map[string]*dto.MetricFamily

var _ = Describe("An operator scrapes the processes", Ordered, func() {
	var cluster *fleet.Cluster

	BeforeAll(func(ctx SpecContext) {
		cluster = imported(ctx)
		_, _, err := world.Managed(ctx, east, cluster) // a bundle was deployed
		Expect(err).NotTo(HaveOccurred())
		// The controllers may have been restarted, and their counters with them. Therefore a cluster is imported
		// and registers again.
		before, err := world.Registrations(ctx, cluster.Namespace, cluster.Spec.ClientID)
		Expect(err).NotTo(HaveOccurred())
		generation := fmt.Appendf(nil, `{"spec":{"redeployAgentGeneration":%d}}`, time.Now().Unix())
		Expect(world.Hub.Patch(ctx, client.Clusters, cluster.Namespace, cluster.Name, generation)).To(Succeed())
		Eventually(func(g Gomega) { // otherwise the import would still be running in another story
			after, err := world.Registrations(ctx, cluster.Namespace, cluster.Spec.ClientID)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after).To(And(HaveLen(1), Not(Equal(before))))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		nobody := &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: "of-nobody"}}
		Expect(world.Hub.Create(ctx, client.ClusterRegistrations, nobody)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Hub.Delete(ctx, client.ClusterRegistrations, nobody.Namespace, nobody.Name)).To(Succeed())
		})
	})

	It("finds every documented metric of the controllers", func(ctx SpecContext) {
		pods, err := world.On(framework.HubName).Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=fleet-controller"})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).NotTo(BeEmpty())
		expectEvery(ctx, framework.HubName, &pods.Items[0], metrics.HubAll(), func(g Gomega, found families) {
			own := map[string]string{"namespace": cluster.Namespace, "name": cluster.Name}
			g.Expect(gauge(found, "fleet_cluster_state", own, "state", "Ready")).To(Equal(1.0))
			g.Expect(gauge(found, "fleet_cluster_last_seen_timestamp_seconds", own)).To(BeNumerically(">=", float64(cluster.Status.Agent.LastSeen.Unix())))
			g.Expect(gauge(found, "fleet_checkin_interval_seconds", nil)).To(Equal(5.0))
			g.Expect(gauge(found, "fleet_troubles", nil, "kind", "ClusterRegistration", "condition", conditions.Granted, "reason", conditions.ReasonClientIDMissing)).To(Equal(1.0))
			g.Expect(gauge(found, "leader_election_master_status", nil, "name", "fleet-agentmanagement-lock")).To(Equal(1.0))
			g.Expect(counter(found, "fleet_registrations_total", "outcome", metrics.OutcomeRejected)).To(BeNumerically(">=", 1))
			g.Expect(counter(found, "fleet_registrations_total", "outcome", metrics.OutcomeGranted)).To(BeNumerically(">=", 1))
			g.Expect(counter(found, "fleet_imports_total", "outcome", metrics.OutcomeSucceeded)).To(BeNumerically(">=", 1))
			g.Expect(counter(found, "fleet_events_total", "outcome", metrics.EventWritten)).To(BeNumerically(">=", 1))
			for _, stage := range []string{metrics.StageImport, metrics.StageRights, metrics.StageCredential, metrics.StageHeartbeat} {
				g.Expect(observed(found, "fleet_registration_stage_duration_seconds", "stage", stage)).To(BeNumerically(">=", 1), stage)
			}
			expectNoSecrets(g, found)
		})
	})

	It("finds every documented metric of an agent", func(ctx SpecContext) {
		pod, err := world.AgentPod(ctx, east)
		Expect(err).NotTo(HaveOccurred())
		expectEvery(ctx, east, pod, metrics.AgentAll(), func(g Gomega, found families) {
			g.Expect(gauge(found, "fleet_agent_stage", nil, "stage", "Use")).To(Equal(1.0))
			g.Expect(gauge(found, "fleet_agent_bundledeployments", nil, "state", "Ready")).To(BeNumerically(">=", 1))
			g.Expect(counter(found, "fleet_agent_registrations_total", "outcome", metrics.OutcomeSucceeded)).To(BeNumerically(">=", 0))
			g.Expect(counter(found, "fleet_agent_heartbeats_total", "outcome", metrics.OutcomeSucceeded)).To(BeNumerically(">=", 1))
			expectNoSecrets(g, found)
		})
	})
})

// expectEvery scrapes a pod until every documented metric exists with its type and labels, and holds succeeds.
func expectEvery(ctx SpecContext, cluster string, pod *corev1.Pod, documented []metrics.Definition, holds func(Gomega, families)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		found, err := world.Scrape(ctx, cluster, pod)
		g.Expect(err).NotTo(HaveOccurred())
		for _, d := range documented {
			g.Expect(found).To(HaveKey(d.Name))
			g.Expect(strings.ToLower(found[d.Name].GetType().String())).To(Equal(string(d.Type)), d.Name)
			var labels []string
			for _, label := range found[d.Name].GetMetric()[0].GetLabel() {
				labels = append(labels, label.GetName())
			}
			g.Expect(labels).To(ConsistOf(d.Labels), d.Name)
		}
		holds(g, found)
	}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	GinkgoWriter.Printf("%d documented metrics of %s found\n", len(documented), pod.Name)
}

// series returns the metric of a family with these label pairs, or nil.
func series(found families, name string, labels []string) *dto.Metric {
	for _, metric := range found[name].GetMetric() {
		has := true
		for i := 0; i < len(labels); i += 2 {
			has = has && slices.ContainsFunc(metric.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == labels[i] && l.GetValue() == labels[i+1] })
		}
		if has {
			return metric
		}
	}
	return nil
}

// gauge returns a value, or -1 if the metric does not exist.
func gauge(found families, name string, of map[string]string, labels ...string) float64 {
	for label, value := range of {
		labels = append(labels, label, value)
	}
	if metric := series(found, name, labels); metric != nil {
		return metric.GetGauge().GetValue()
	}
	return -1
}

// counter returns a count, or -1 if the metric does not exist.
func counter(found families, name string, labels ...string) float64 {
	if metric := series(found, name, labels); metric != nil {
		return metric.GetCounter().GetValue()
	}
	return -1
}

// observed returns the number of observations, or 0 if the metric does not exist.
func observed(found families, name string, labels ...string) uint64 {
	return series(found, name, labels).GetHistogram().GetSampleCount()
}

// expectNoSecrets fails if a label looks like a token or a key.
func expectNoSecrets(g Gomega, found families) {
	for _, family := range found {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				g.Expect(label.GetValue()).NotTo(Or(HavePrefix("eyJ"), ContainSubstring("PRIVATE KEY")), family.GetName())
			}
		}
	}
}
