//go:build linux

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// wish are a Cluster's settings for its agent. The effect of each one can be observed on a node.
var wish = fleet.ClusterSpec{
	AgentEnvVars:     []corev1.EnvVar{{Name: "SETTING", Value: "taken"}},
	AgentTolerations: []corev1.Toleration{{Key: "example.com/reserved", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
	AgentAffinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"},
		}}}},
	}}},
	AgentResources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	},
	AgentSchedulingCustomization: &fleet.AgentSchedulingCustomization{
		PriorityClass:       &fleet.PriorityClassSpec{Value: 4711},
		PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
	},
}

func setting() {
	It("applies them to the pod, which keeps its identity", func(ctx SpecContext) {
		known := registrations(ctx, eastern)
		pod := theirs(ctx, east, agentPods)[0]
		onHost := true
		wish.HostNetwork = &onHost
		change(ctx, eastern, wish)
		Eventually(func(g Gomega) {
			pods := theirs(ctx, east, agentPods)
			g.Expect(pods).To(HaveLen(1))
			g.Expect(pods[0].UID).NotTo(Equal(pod.UID))
			asWished(g, pods[0])
		}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
		runs(ctx, east, names.SystemNamespace, names.Agent, 1)
		delivers(ctx, east, "after-settings", map[string]string{"env": east})
		Expect(registrations(ctx, eastern)).To(Equal(known))
	})

	It("has a PodDisruptionBudget that selects the pod", func(ctx SpecContext) {
		_, err := client.Until(ctx, client.Await{
			From: world.On(east).Kube.PolicyV1().RESTClient(), Resource: "poddisruptionbudgets", Namespace: names.SystemNamespace,
			Name: "fleet-agent-pod-disruption-budget", For: "one healthy pod", Within: patience,
		}, func(b *policyv1.PodDisruptionBudget) bool {
			return b.Status.ExpectedPods == 1 && b.Status.CurrentHealthy == 1
		})
		Expect(err).NotTo(HaveOccurred())
	})

	It("removes a setting again", func(ctx SpecContext) {
		wish.HostNetwork = nil
		no := false
		change(ctx, eastern, fleet.ClusterSpec{ClientID: eastern.Spec.ClientID, KubeConfigSecret: eastern.Spec.KubeConfigSecret, HostNetwork: &no})
		Eventually(func(g Gomega) {
			pods := theirs(ctx, east, agentPods)
			g.Expect(pods).To(HaveLen(1))
			g.Expect(pods[0].Spec.HostNetwork).To(BeFalse())
		}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
		runs(ctx, east, names.SystemNamespace, names.Agent, 1)
	})

	It("trusts only the given CA with agentTLSMode strict", func(ctx SpecContext) {
		Expect(release(framework.HubName, "fleet", hubValues(map[string]any{"agentTLSMode": "strict"})).Install(ctx)).To(Succeed())
		_, err := world.ConfigMap(ctx, east, names.SystemNamespace, names.Agent, func(c *corev1.ConfigMap) bool {
			return strings.Contains(c.Data["config"], `"agentTLSMode":"strict"`)
		})
		Expect(err).NotTo(HaveOccurred())
		kill(ctx, east, theirs(ctx, east, agentPods)[0].Name) // the next pod starts with the setting
		runs(ctx, east, names.SystemNamespace, names.Agent, 1)
		delivers(ctx, east, "while-strict", map[string]string{"env": east})
	})
}

// asWished compares a running pod with the settings.
func asWished(g Gomega, pod corev1.Pod) {
	spec, container := pod.Spec, pod.Spec.Containers[0]
	g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(container.Env).To(ContainElements(wish.AgentEnvVars))
	g.Expect(spec.Tolerations).To(ContainElements(wish.AgentTolerations))
	g.Expect(spec.Affinity).To(Equal(wish.AgentAffinity))
	g.Expect(container.Resources.Requests.Cpu().String()).To(Equal("10m"))
	g.Expect(container.Resources.Limits.Memory().String()).To(Equal("512Mi"))
	g.Expect(spec.Priority).To(gstruct.PointTo(BeEquivalentTo(4711)), "as Kubernetes has looked it up")
	g.Expect(spec.HostNetwork).To(BeTrue())
	g.Expect(pod.Status.PodIP).To(Equal(pod.Status.HostIP))
}

// change sets fields of a Cluster's spec.
func change(ctx context.Context, cluster *fleet.Cluster, spec fleet.ClusterSpec) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	Expect(err).NotTo(HaveOccurred())
	Expect(world.Hub.Fleet.Patch(types.MergePatchType).Namespace(cluster.Namespace).Resource(client.Clusters).Name(cluster.Name).
		Body(patch).Do(ctx).Error()).To(Succeed())
}

// tenant is a second agent on west, in a namespace with its own pod security level.
const tenant, tenantNamespace = "tenant", "tenant-agents"

func restricted() {
	It("reports a quota that rejects pods without requests", func(ctx SpecContext) {
		downstream := world.On(west).Kube.CoreV1()
		_, err := downstream.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "quota"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("1")}},
		}
		_, err = downstream.ResourceQuotas(tenantNamespace).Create(ctx, quota, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		kubeconfig := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: tenant}, Data: map[string][]byte{"value": world.Node(west).Kubeconfig},
		}
		_, err = world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Create(ctx, kubeconfig, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: tenant},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: tenant, AgentNamespace: tenantNamespace},
		})).To(Succeed())
		saysRejected(ctx, "quota")
	})

	It("reports pod security that rejects the pod", func(ctx SpecContext) {
		secure(ctx, "restricted")
		set(ctx, fleet.ClusterSpec{AgentResources: wish.AgentResources})
		saysRejected(ctx, "Pod Security")
	})

	It("joins beside the other agent once nothing prevents it", func(ctx SpecContext) {
		known := registrations(ctx, western)
		secure(ctx, "baseline")
		set(ctx, fleet.ClusterSpec{AgentEnvVars: wish.AgentEnvVars}) // so that the cluster is retried at once
		_, err := world.Joined(ctx, framework.Workspace, tenant, framework.Named(tenant))
		Expect(err).NotTo(HaveOccurred())
		Expect(registrations(ctx, western)).To(Equal(known))
	})

	It("is removed again", func(ctx SpecContext) {
		Expect(world.Hub.Delete(ctx, client.Clusters, framework.Workspace, tenant)).To(Succeed())
		downstream := world.On(west).Kube
		Expect(downstream.CoreV1().Namespaces().Delete(ctx, tenantNamespace, metav1.DeleteOptions{})).To(Succeed())
		Expect(downstream.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, names.RecoverySecret(tenantNamespace), metav1.DeleteOptions{})).To(Succeed())
		role := names.SafeConcat(tenantNamespace, "fleet-agent", "role")
		Expect(downstream.RbacV1().ClusterRoles().Delete(ctx, role, metav1.DeleteOptions{})).To(Succeed())
		Expect(downstream.RbacV1().ClusterRoleBindings().Delete(ctx, role+"-binding", metav1.DeleteOptions{})).To(Succeed())
		Expect(world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Delete(ctx, tenant, metav1.DeleteOptions{})).To(Succeed())
	})
}

// secure sets the pod security level of the tenant's namespace.
func secure(ctx context.Context, level string) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level)
	_, err := world.On(west).Kube.CoreV1().Namespaces().Patch(ctx, tenantNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// set changes fields of the tenant's spec.
func set(ctx context.Context, spec fleet.ClusterSpec) {
	GinkgoHelper()
	change(ctx, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: tenant}}, spec)
}

// saysRejected waits until the tenant's Cluster reports that its namespace rejects the agent's pod, and why.
func saysRejected(ctx context.Context, why string) {
	GinkgoHelper()
	says(ctx, tenant, conditions.Imported, conditions.ReasonAgentPodRejected, why)
}

// says waits until a condition of a Cluster is False with this reason and these words in its message.
func says(ctx context.Context, name, condition, reason, words string) *fleet.Cluster {
	GinkgoHelper()
	said, err := client.Until(ctx, client.Await{
		From: world.Hub.Fleet, Resource: client.Clusters, Namespace: framework.Workspace, Name: name,
		For: fmt.Sprintf("%s is False for the reason %s: %s", condition, reason, words), Within: patience,
	}, func(c *fleet.Cluster) bool {
		found := conditions.Get(c.Status.Conditions, condition)
		return found != nil && found.Status == corev1.ConditionFalse && found.Reason == reason && strings.Contains(found.Message, words)
	})
	Expect(err).NotTo(HaveOccurred())
	return said
}
