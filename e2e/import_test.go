package e2e

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var _ = Describe("The hub reaches a cluster: a kubeconfig Secret and a Cluster that names it", Ordered, func() {
	var cluster *fleet.Cluster

	It("registers", func(ctx SpecContext) {
		cluster = imported(ctx)
		Expect(cluster.Spec.ClientID).To(HaveLen(54))
		Expect(cluster.Status.Namespace).To(Equal(names.ClusterNamespace(framework.Workspace, east)))
	})

	It("has used its import credential once, and keeps its own identity", func(ctx SpecContext) {
		secrets := world.On(east).Kube.CoreV1().Secrets(names.SystemNamespace)
		Eventually(func(g Gomega) {
			_, err := secrets.Get(ctx, names.AgentBootstrap, metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the bootstrap secret is still there: %v", err)
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		identity, err := secrets.Get(ctx, names.Agent, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(identity.Data).To(And(HaveKey("kubeconfig"), HaveKey("deploymentNamespace"), HaveKey("clusterNamespace"), HaveKeyWithValue("clusterName", []byte(east))))
	})

	It("reports the import in its conditions", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			var now fleet.Cluster
			g.Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, east, &now)).To(Succeed())
			imported := conditions.Get(now.Status.Conditions, conditions.Imported)
			g.Expect(imported).NotTo(BeNil())
			g.Expect(imported.Status).To(Equal(corev1.ConditionTrue))
			g.Expect(now.Status.AgentDeployedGeneration).To(HaveValue(Equal(now.Spec.RedeployAgentGeneration)))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("runs a chart with the name of its cluster", func(ctx SpecContext) {
		bundle := chart(only(greeting(framework.Workspace, "for-dev", ""), map[string]string{"env": "dev"}), map[string]any{"text": "this is ${ .ClusterName }"})
		Expect(world.Hub.Create(ctx, client.Bundles, bundle)).To(Succeed())
		_, err := world.ConfigMap(ctx, east, "for-dev", "for-dev", says("this is east"))
		Expect(err).NotTo(HaveOccurred())
		_, err = world.Ready(ctx, cluster, 1)
		Expect(err).NotTo(HaveOccurred())
	})

	It("applies a change, and removes deleted objects", func(ctx SpecContext) {
		Expect(world.Hub.Patch(ctx, client.Bundles, framework.Workspace, "for-dev", []byte(`{"spec":{"helm":{"values":{"text":"changed"}}}}`))).To(Succeed())
		_, err := world.ConfigMap(ctx, east, "for-dev", "for-dev", says("changed"))
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Hub.Delete(ctx, client.Bundles, framework.Workspace, "for-dev")).To(Succeed())
		Eventually(func(g Gomega) {
			_, err := world.On(east).Kube.CoreV1().ConfigMaps("for-dev").Get(ctx, "for-dev", metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the ConfigMap is still there: %v", err)
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("fills the printer columns", func(ctx SpecContext) {
		cells := printed(ctx, client.Clusters, framework.Workspace)[east]
		Expect(cells).To(HaveKeyWithValue("Bundles-Ready", MatchRegexp(`^\d+/\d+$`)))
		Expect(cells).To(HaveKeyWithValue("Last-Seen", Not(BeEmpty())))
	})
})

// printed returns the output of kubectl get by name and column.
func printed(ctx SpecContext, resource, namespace string) map[string]map[string]string {
	GinkgoHelper()
	raw, err := world.Hub.Fleet.Get().Namespace(namespace).Resource(resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	Expect(err).NotTo(HaveOccurred())
	var table metav1.Table
	Expect(json.Unmarshal(raw, &table)).To(Succeed())
	rows := map[string]map[string]string{}
	for _, row := range table.Rows {
		cells := map[string]string{}
		for i, column := range table.ColumnDefinitions {
			if text, ok := row.Cells[i].(string); ok {
				cells[column.Name] = text
			}
		}
		rows[cells["Name"]] = cells
	}
	return rows
}
