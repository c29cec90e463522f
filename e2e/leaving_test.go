package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("A cluster leaves: its Cluster is deleted", Ordered, func() {
	suite.Uses(&world, south)

	var cluster *fleet.Cluster

	It("has run something", func(ctx SpecContext) {
		Expect(world.Import(ctx, south, map[string]string{"env": "leaving"})).To(Succeed())
		var err error
		cluster, err = world.Joined(ctx, framework.Workspace, south, framework.Named(south))
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Hub.Create(ctx, client.Bundles, only(greeting(framework.Workspace, "for-leaving", "still here"), map[string]string{"env": "leaving"}))).To(Succeed())
		_, err = world.ConfigMap(ctx, south, "for-leaving", "for-leaving", says("still here"))
		Expect(err).NotTo(HaveOccurred())
	})

	It("removes all its objects from the hub", func(ctx SpecContext) {
		Expect(world.Hub.Delete(ctx, client.Clusters, framework.Workspace, south)).To(Succeed())
		Eventually(func(g Gomega) {
			var gone fleet.Cluster
			g.Expect(apierrors.IsNotFound(world.Hub.Get(ctx, client.Clusters, framework.Workspace, south, &gone))).To(BeTrue(), "the Cluster is still there")
			_, err := world.Hub.Kube.CoreV1().Namespaces().Get(ctx, cluster.Status.Namespace, metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "its namespace is still there: %v", err)
			requests, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(requests).To(BeEmpty())
			left, err := ofCluster(ctx, south)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(left).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("keeps its workloads running", func(ctx SpecContext) {
		// An unready agent has noticed the deletion, and would do nothing later.
		Eventually(func(g Gomega) {
			pod, err := world.AgentPod(ctx, south)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(isReady(pod)).To(BeFalse(), "the agent has not noticed yet")
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		kept, err := world.On(south).Kube.CoreV1().ConfigMaps("for-leaving").Get(ctx, "for-leaving", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(kept.Data).To(HaveKeyWithValue("text", "still here"))
	})
})

// ofCluster returns the names of the remaining objects of a Cluster's registration on the hub.
func ofCluster(ctx SpecContext, cluster string) (left []string, err error) {
	core, rbac := world.Hub.Kube.CoreV1(), world.Hub.Kube.RbacV1()
	var token fleet.ClusterRegistrationToken
	if err := world.Hub.Get(ctx, client.Tokens, framework.Workspace, names.ImportToken(cluster), &token); err == nil {
		left = append(left, "token "+token.Name)
	}
	var bundle fleet.Bundle
	if err := world.Hub.Get(ctx, client.Bundles, framework.Workspace, names.AgentBundle(cluster), &bundle); err == nil {
		left = append(left, "bundle "+bundle.Name)
	}
	ours := metav1.ListOptions{LabelSelector: fleet.LabelCluster + "=" + cluster}
	secrets, err := core.Secrets("").List(ctx, ours)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets.Items {
		left = append(left, "secret "+secret.Name)
	}
	roles, err := rbac.Roles("").List(ctx, metav1.ListOptions{LabelSelector: fleet.LabelManaged + "=true"})
	if err != nil {
		return nil, err
	}
	for _, role := range roles.Items {
		for _, rule := range role.Rules {
			if len(rule.ResourceNames) == 1 && rule.ResourceNames[0] == cluster {
				left = append(left, "role "+role.Name)
			}
		}
	}
	return left, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
