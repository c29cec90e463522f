package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const bootstrapHash = "67f475f626e5473772f6084a291170a9de5942d1"

func TestHub_RegistersItself(t *testing.T) {
	hub := hub(t)
	NewWithT(t).Eventually(func(g Gomega) { // another test may have changed something, which is being healed
		local := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, "fleet-local", "local", local)).To(Succeed())
		g.Expect(local.Status.Namespace).To(Equal("cluster-fleet-local-local-1a3d67d0a899"))
		g.Expect(local.Labels).To(Equal(map[string]string{"name": "local", "env": "hub", fleet.LabelSetHash: bootstrapHash}))
		g.Expect(local.Finalizers).To(Equal([]string{fleet.FinalizerCluster}))
		g.Expect(local.Spec.KubeConfigSecret).To(Equal("local-cluster"))
		g.Expect(local.Spec.AgentTolerations).To(Equal([]corev1.Toleration{{Key: "cattle.io/os", Operator: "Equal", Value: "linux", Effect: "NoSchedule"}}))

		g.Expect(local.Status.AgentDeployedGeneration).NotTo(BeNil(), "the hub may go to its own address, without allowLocalKubeconfigs")

		group := &fleet.ClusterGroup{}
		g.Expect(hub.Get(t.Context(), client.ClusterGroups, "fleet-local", "default", group)).To(Succeed())
		g.Expect(group.Labels).To(Equal(map[string]string{fleet.LabelSetHash: bootstrapHash}))
		g.Expect(group.Annotations).To(Equal(map[string]string{fleet.AnnotationSetID: "fleet-bootstrap"}))
		g.Expect(group.Spec.Selector).To(Equal(&metav1.LabelSelector{MatchLabels: map[string]string{"name": "local"}}))

		secret := localKubeconfig(t, g, hub)
		g.Expect(secret.Labels).To(Equal(map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: bootstrapHash}))
		g.Expect(string(secret.Data["apiServerURL"])).To(Equal(control.Plane(t).Hub.URL))
		g.Expect(secret.Data["apiServerCA"]).To(Equal(control.Plane(t).Hub.CA))
		cfg, err := kubeconfig.Safe(secret.Data["value"])
		g.Expect(err).NotTo(HaveOccurred())
		own, err := kubernetes.NewForConfig(cfg)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = own.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred(), "the kubeconfig must be one that works")
	}).WithTimeout(patience).Should(Succeed())
}

// localKubeconfig is the Secret with which the hub reaches itself.
func localKubeconfig(t *testing.T, g Gomega, hub *client.Client) *corev1.Secret {
	t.Helper()
	secret, err := hub.Kube.CoreV1().Secrets("fleet-local").Get(t.Context(), "local-cluster", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return secret
}

func TestHub_HasItsOwnObjects(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	roles := hub.Kube.RbacV1().ClusterRoles()
	recorded := map[string][]rbacv1.PolicyRule{
		"fleet-bundle-deployment": {
			{APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"bundledeployments/status"}, Verbs: []string{"update", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get"}},
		},
		"fleet-content": {{APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"contents"}, Verbs: []string{"get"}}},
	}
	expectAll := func() {
		t.Helper()
		g.Eventually(func(g Gomega) {
			for name, rules := range recorded {
				role, err := roles.Get(t.Context(), name, metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(role.Rules).To(Equal(rules))
				g.Expect(role.Labels).To(Equal(map[string]string{fleet.LabelSetHash: "4510303f19b6cbafc9031148b1866f16c2be7aaa"}))
				g.Expect(role.Annotations).To(Equal(map[string]string{fleet.AnnotationSetID: "fleet-bootstrap-data"}))
			}
			registration, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), "cattle-fleet-clusters-system", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(registration.Labels).To(HaveKeyWithValue(fleet.LabelSetHash, "4510303f19b6cbafc9031148b1866f16c2be7aaa"))
		}).WithTimeout(patience).Should(Succeed())
	}
	expectAll()

	narrowed := []byte(`{"rules":[{"apiGroups":["fleet.cattle.io"],"resources":["bundledeployments"],"verbs":["get"]}]}`)
	_, err := roles.Patch(t.Context(), "fleet-bundle-deployment", types.MergePatchType, narrowed, metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(roles.Delete(t.Context(), "fleet-content", metav1.DeleteOptions{})).To(Succeed())
	expectAll()
}

func TestHubsOwnObjects_AreRestored(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	settled(t, hub, "fleet-local", "local")
	before := localKubeconfig(t, g, hub)

	g.Expect(hub.Delete(t.Context(), client.ClusterGroups, "fleet-local", "default")).To(Succeed())
	g.Expect(hub.Patch(t.Context(), client.Clusters, "fleet-local", "local", []byte(`{"metadata":{"labels":{"name":"x","theirs":"1"}}}`))).To(Succeed())
	defer func() {
		g.Expect(hub.Patch(t.Context(), client.Clusters, "fleet-local", "local", []byte(`{"metadata":{"labels":{"theirs":null}}}`))).To(Succeed())
	}()
	g.Eventually(func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.ClusterGroups, "fleet-local", "default", &fleet.ClusterGroup{})).To(Succeed())
		local := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, "fleet-local", "local", local)).To(Succeed())
		g.Expect(local.Labels).To(And(HaveKeyWithValue("name", "local"), HaveKeyWithValue("theirs", "1")))
	}).WithTimeout(patience).Should(Succeed())

	g.Expect(hub.Kube.CoreV1().Secrets("fleet-local").Delete(t.Context(), "local-cluster", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func(g Gomega) {
		after, err := hub.Kube.CoreV1().Secrets("fleet-local").Get(t.Context(), "local-cluster", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(after.UID).NotTo(Equal(before.UID))
		g.Expect(after.Data["value"]).NotTo(Equal(before.Data["value"]), "the token went with the Secret")
	}).WithTimeout(patience).Should(Succeed())
}

func TestRestart_ChangesNothing(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	settled(t, hub, "fleet-local", "local")
	before := localKubeconfig(t, g, hub)
	g.Expect(leading.stop()).To(BeZero())
	leading = start(t, must(t)(installed()))
	g.Expect(leading.awaitReady("leading")).To(Succeed())
	expectWork(t, hub)
	g.Expect(localKubeconfig(t, g, hub).ResourceVersion).To(Equal(before.ResourceVersion))
}

// settings changes the controllers' configuration, key by key, and returns what undoes it.
func settings(t *testing.T, hub *client.Client, change func(map[string]any)) {
	t.Helper()
	maps := hub.Kube.CoreV1().ConfigMaps(system)
	found, err := maps.Get(t.Context(), names.ControllerConfig, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := found.Data["config"]
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(before), &values); err != nil {
		t.Fatal(err)
	}
	change(values)
	after, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	writeConfig(t.Context(), t, hub, string(after))
	t.Cleanup(func() { writeConfig(context.Background(), t, hub, before) }) // the test's own context is over by then
}

func writeConfig(ctx context.Context, t *testing.T, hub *client.Client, text string) {
	t.Helper()
	patch := must(t)(encode(map[string]any{"data": map[string]string{"config": text}}))
	_, err := hub.Kube.CoreV1().ConfigMaps(system).Patch(ctx, names.ControllerConfig, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func encode(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func TestChangedConfiguration_IsLoaded(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	expectEnv := func(env any) {
		t.Helper()
		g.Eventually(func(g Gomega) {
			local := &fleet.Cluster{}
			g.Expect(hub.Get(t.Context(), client.Clusters, "fleet-local", "local", local)).To(Succeed())
			if env == nil {
				g.Expect(local.Labels).NotTo(HaveKey("env"))
			} else {
				g.Expect(local.Labels).To(HaveKeyWithValue("env", env))
			}
		}).WithTimeout(patience).Should(Succeed())
	}
	bootstrap := func(values map[string]any) map[string]any { return values["bootstrap"].(map[string]any) }
	expectEnv("hub")
	settings(t, hub, func(values map[string]any) { bootstrap(values)["clusterLabels"] = map[string]any{"env": "changed"} })
	expectEnv("changed")
	settings(t, hub, func(values map[string]any) { bootstrap(values)["clusterLabels"] = map[string]any{} })
	expectEnv(nil)

	writeConfig(t.Context(), t, hub, "- no\n- mapping\n")
	expectEvent(t, hub, "ConfigurationMalformed")
	settingsAfter := map[string]any{"bootstrap": map[string]any{"namespace": "fleet-local", "clusterLabels": map[string]any{"env": "again"}}}
	writeConfig(t.Context(), t, hub, must(t)(encode(settingsAfter)))
	expectEnv("again")
}

func expectEvent(t *testing.T, hub *client.Client, reason string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		events, err := hub.Kube.CoreV1().Events(system).List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		var reasons []string
		for _, event := range events.Items {
			reasons = append(reasons, fmt.Sprintf("%s/%s %s", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason))
		}
		g.Expect(strings.Join(reasons, "\n")).To(ContainSubstring("ConfigMap/fleet-controller " + reason))
	}).WithTimeout(patience).Should(Succeed())
}

func TestChangedBootstrapWorkspace_MovesTheHubsCluster(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	settings(t, hub, func(values map[string]any) { values["bootstrap"].(map[string]any)["namespace"] = "moved" })
	g.Eventually(func(g Gomega) {
		local := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, "moved", "local", local)).To(Succeed())
		g.Expect(local.Status.Namespace).To(Equal(names.ClusterNamespace("moved", "local")))
		clusters := &fleet.ClusterList{}
		g.Expect(hub.List(t.Context(), client.Clusters, "fleet-local", clusters)).To(Succeed())
		g.Expect(clusters.Items).To(BeEmpty(), "the old one is pruned")
		_, err := hub.Kube.CoreV1().Secrets("fleet-local").Get(t.Context(), "local-cluster", metav1.GetOptions{})
		g.Expect(err).To(HaveOccurred(), "its kubeconfig too")
		_, err = hub.Kube.CoreV1().Namespaces().Get(t.Context(), "fleet-local", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred(), "but not the workspace")
	}).WithTimeout(2 * patience).Should(Succeed())
}
