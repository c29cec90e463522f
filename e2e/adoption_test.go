package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// theHubItself returns the hub's own cluster, which is registered automatically.
func theHubItself(ctx SpecContext) *fleet.Cluster {
	GinkgoHelper()
	cluster, err := world.Joined(ctx, framework.LocalWorkspace, names.LocalCluster, framework.Named(names.LocalCluster))
	Expect(err).NotTo(HaveOccurred())
	return cluster
}

// These stories run for each way of registration.
var _ = Describe("The hub manages the agents", Ordered, func() {
	ways := []TableEntry{
		Entry("of itself", framework.HubName, theHubItself),
		Entry("that it imported", east, imported),
		Entry("that was installed by helm install fleet-agent", west, arrived),
	}

	DescribeTable("by a Bundle that takes the agent over in its pod", func(ctx SpecContext, downstream string, joined func(SpecContext) *fleet.Cluster) {
		cluster := joined(ctx)
		pod, err := world.AgentPod(ctx, downstream)
		Expect(err).NotTo(HaveOccurred())
		managed, deployment, err := world.Managed(ctx, downstream, cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(deployment.Annotations).To(And(
			HaveKeyWithValue(framework.ReleaseAnnotation, names.HelmReleaseName(managed.Name)),
			HaveKeyWithValue(fleet.AnnotationSetID, "fleet-agent-bootstrap"),
			HaveKeyWithValue(framework.RevisionAnnotation, "1"),
		))
		Expect(deployment.Labels).To(HaveKeyWithValue(fleet.LabelSetHash, "f399d0b310fbfb28e9667312fdc7a33954e2b8c8"))
		same, err := world.AgentPod(ctx, downstream)
		Expect(err).NotTo(HaveOccurred())
		Expect(same.UID).To(Equal(pod.UID), "the agent has another pod")
		Expect(framework.Restarts(same)).To(Equal(framework.Restarts(pod)), "the agent was restarted")
	}, ways)

	DescribeTable("and reports it as recorded", func(ctx SpecContext, downstream string, joined func(SpecContext) *fleet.Cluster) {
		cluster := joined(ctx)
		name := names.AgentBundle(cluster.Name)
		recorded := recordedDeployment("fleet-agent-east")
		Eventually(func(g Gomega) {
			var bd fleet.BundleDeployment
			g.Expect(world.Hub.Get(ctx, client.BundleDeployments, cluster.Status.Namespace, name, &bd)).To(Succeed())
			g.Expect(bd.Labels).To(Equal(map[string]string{
				fleet.LabelBundleName: name, fleet.LabelBundleNamespace: cluster.Namespace, fleet.LabelManaged: "true",
				fleet.LabelCluster: cluster.Name, fleet.LabelClusterNamespace: cluster.Namespace,
				fleet.LabelContentName: strings.Split(bd.Spec.DeploymentID, ":")[0],
			}))
			g.Expect(told(bd.Spec)).To(Equal(told(recorded.Spec)))
			g.Expect(told(bd.Status)).To(Equal(strings.ReplaceAll(told(recorded.Status), recorded.Name, name)))
			var bundle fleet.Bundle
			g.Expect(world.Hub.Get(ctx, client.Bundles, cluster.Namespace, name, &bundle)).To(Succeed())
			g.Expect(bundle.Status.Display.ReadyClusters).To(Equal("1/1"))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	}, ways)

	DescribeTable("which applies a changed setting to the agent in one step", func(ctx SpecContext, downstream string, joined func(SpecContext) *fleet.Cluster) {
		cluster := joined(ctx)
		_, before, err := world.Managed(ctx, downstream, cluster)
		Expect(err).NotTo(HaveOccurred())
		pod, err := world.AgentPod(ctx, downstream)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Hub.Patch(ctx, client.Clusters, cluster.Namespace, cluster.Name, []byte(`{"spec":{"agentEnvVars":[{"name":"STORY","value":"told"}]}}`))).To(Succeed())

		By("replacing the agent while it upgrades itself")
		Eventually(func(g Gomega) {
			next, err := world.AgentPod(ctx, downstream)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next.UID).NotTo(Equal(pod.UID))
			g.Expect(next.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "STORY", Value: "told"}))
			managed, after, err := world.Managed(ctx, downstream, cluster)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after.Generation).To(BeNumerically(">", before.Generation))
			g.Expect(after.Annotations).To(HaveKeyWithValue(framework.RevisionAnnotation, "2"), "the template was changed more than once")
			g.Expect(managed.Status.Release).NotTo(HaveSuffix(":1"))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())

		By("leaving no operation pending")
		secrets, err := world.On(downstream).Kube.CoreV1().Secrets(names.SystemNamespace).List(ctx, metav1.ListOptions{
			LabelSelector: "owner=helm,name=" + names.HelmReleaseName(names.AgentBundle(cluster.Name)),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(secrets.Items).NotTo(BeEmpty())
		for _, secret := range secrets.Items {
			Expect(secret.Labels["status"]).NotTo(HavePrefix("pending"), secret.Name)
		}
	}, ways)

	It("unless a label of the Cluster excludes its agent from management", func(ctx SpecContext) {
		cluster := imported(ctx)
		managed, _, err := world.Managed(ctx, east, cluster)
		Expect(err).NotTo(HaveOccurred())
		pod, err := world.AgentPod(ctx, east)
		Expect(err).NotTo(HaveOccurred())
		releases := func(g Gomega) int {
			secrets, err := world.On(east).Kube.CoreV1().Secrets(names.SystemNamespace).List(ctx, metav1.ListOptions{
				LabelSelector: "owner=helm,name=" + names.HelmReleaseName(managed.Name),
			})
			g.Expect(err).NotTo(HaveOccurred())
			return len(secrets.Items)
		}
		label := func(value string) {
			patch := `{"metadata":{"labels":{"` + fleet.LabelNonManagedAgent + `":` + value + `}}}`
			Expect(world.Hub.Patch(ctx, client.Clusters, cluster.Namespace, cluster.Name, []byte(patch))).To(Succeed())
		}

		label(`"true"`)
		Eventually(func(g Gomega) {
			var list fleet.BundleDeploymentList
			g.Expect(world.Hub.List(ctx, client.BundleDeployments, cluster.Status.Namespace, &list)).To(Succeed())
			for _, bd := range list.Items {
				g.Expect(bd.Name).NotTo(Equal(managed.Name))
			}
			g.Expect(releases(g)).To(BeZero(), "the agent has not forgotten its release")
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		same, err := world.AgentPod(ctx, east)
		Expect(err).NotTo(HaveOccurred())
		Expect(same.UID).To(Equal(pod.UID))

		label("null")
		_, deployment, err := world.Managed(ctx, east, cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(deployment.Annotations).To(HaveKeyWithValue(framework.ReleaseAnnotation, names.HelmReleaseName(managed.Name)))
		same, err = world.AgentPod(ctx, east)
		Expect(err).NotTo(HaveOccurred())
		Expect(same.UID).To(Equal(pod.UID))
	})
})

// recordedDeployment returns the BundleDeployment that another hub had for an agent.
func recordedDeployment(name string) *fleet.BundleDeployment {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "recorded", "hub", "bundledeployments.yaml"))
	Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var bd fleet.BundleDeployment
		Expect(yaml.Unmarshal([]byte(document), &bd)).To(Succeed())
		if bd.Name == name {
			return &bd
		}
	}
	Fail("no BundleDeployment " + name + " is recorded")
	return nil
}

// told returns a spec or status as text without times, IDs and release numbers, because the image and the
// settings of this hub change them.
func told(part any) string {
	GinkgoHelper()
	text, err := json.Marshal(part)
	Expect(err).NotTo(HaveOccurred())
	var fields map[string]any
	Expect(json.Unmarshal(text, &fields)).To(Succeed())
	for _, name := range []string{"deploymentID", "stagedDeploymentID", "appliedDeploymentID"} {
		delete(fields, name)
	}
	conditions := map[string]any{}
	if list, ok := fields["conditions"].([]any); ok {
		for _, entry := range list {
			condition := entry.(map[string]any)
			delete(condition, "lastUpdateTime")
			conditions[condition["type"].(string)] = condition
		}
		fields["conditions"] = conditions
	}
	if list, ok := fields["resources"].([]any); ok {
		for _, entry := range list {
			delete(entry.(map[string]any), "createdAt")
		}
	}
	if release, ok := fields["release"].(string); ok {
		fields["release"] = release[:strings.LastIndex(release, ":")]
	}
	text, err = json.MarshalIndent(fields, "", " ")
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
