package agentmanagement_test

import (
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// silent is the URL of somebody who takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String()
}

// givenTo is the identity that the agent of a Cluster begins with.
func givenTo(t *testing.T, c *fleet.Cluster) protocol.Bootstrap {
	t.Helper()
	g := NewWithT(t)
	found, err := secret(t.Context(), reach(t, east(t).Config()), c.Spec.AgentNamespace, names.AgentBootstrap)
	g.Expect(err).NotTo(HaveOccurred())
	given, err := protocol.ParseBootstrap(found.Data)
	g.Expect(err).NotTo(HaveOccurred())
	return given
}

// awaitPod waits until an agent's pod runs in a namespace of east.
func awaitPod(t *testing.T, namespace string) {
	t.Helper()
	east := reach(t, east(t).Config())
	eventually(t, func(g Gomega) {
		pods, err := east.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=fleet-agent"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods.Items).To(ContainElement(HaveField("Status.Phase", corev1.PodRunning)))
	})
}

// touch has a Cluster looked at.
func touch(t *testing.T, hub *client.Client, c *fleet.Cluster) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"touched":"` + time.Now().Format(time.RFC3339Nano) + `"}}}`
	NewWithT(t).Expect(hub.Patch(t.Context(), client.Clusters, c.Namespace, c.Name, []byte(patch))).To(Succeed())
}

// The condition Imported reports what blocks the agent in its cluster, until the cause is removed.
func TestBlockedAgent_IsReportedAndRecovers(t *testing.T) {
	tests := map[string]struct {
		// does makes a trouble in east's namespace of this name and returns how it ends.
		does   func(t *testing.T, east *client.Client, namespace string) (mend func(g Gomega))
		reason string
	}{
		"quota": {reason: conditions.ReasonAgentPodRejected, does: func(t *testing.T, east *client.Client, namespace string) func(Gomega) {
			g, quotas := NewWithT(t), east.Kube.CoreV1().ResourceQuotas(namespace)
			g.Expect(east.EnsureNamespace(t.Context(), namespace)).To(Succeed())
			_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			return func(g Gomega) { g.Expect(quotas.Delete(t.Context(), "none", metav1.DeleteOptions{})).To(Succeed()) }
		}},
		"policy": {reason: conditions.ReasonAdmissionDenied, does: func(t *testing.T, east *client.Client, namespace string) func(Gomega) {
			g, hooks := NewWithT(t), east.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
			g.Expect(east.EnsureNamespace(t.Context(), namespace)).To(Succeed())
			fail, none, nowhere := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, "https://127.0.0.1:1/"
			_, err := hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "nobody"},
				Webhooks: []admissionregistrationv1.ValidatingWebhook{{
					Name: "nobody.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
					ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &nowhere},
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
					Rules: []admissionregistrationv1.RuleWithOperations{{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
					}},
				}},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(func(g Gomega) { // until the API server has heard of it
				probe := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"probe"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
				_, err := east.Kube.AppsV1().Deployments(namespace).Patch(t.Context(), "probe", types.ApplyPatchType, probe, metav1.PatchOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}})
				g.Expect(err).To(MatchError(ContainSubstring("nobody.example.com")))
			}).WithTimeout(patience).Should(Succeed())
			return func(g Gomega) { g.Expect(hooks.Delete(t.Context(), "nobody", metav1.DeleteOptions{})).To(Succeed()) }
		}},
		"terminating": {reason: conditions.ReasonNamespaceTerminating, does: func(t *testing.T, east *client.Client, namespace string) func(Gomega) {
			g, configs := NewWithT(t), east.Kube.CoreV1().ConfigMaps(namespace)
			g.Expect(east.EnsureNamespace(t.Context(), namespace)).To(Succeed())
			_, err := configs.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/held"}}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(east.Kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{})).To(Succeed())
			return func(g Gomega) {
				_, err := configs.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			}
		}},
		"another-hub": {reason: conditions.ReasonAnotherHub, does: func(t *testing.T, east *client.Client, namespace string) func(Gomega) {
			g, configs := NewWithT(t), east.Kube.CoreV1().ConfigMaps(namespace)
			g.Expect(east.EnsureNamespace(t.Context(), namespace)).To(Succeed())
			_, err := configs.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: names.Agent, Annotations: map[string]string{annotation.HubUID: "5f6c0a52-1d7e-4f0b-9d1b-0a8f0c3d2e1f"},
			}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			return func(g Gomega) { // as the message says
				_, err := configs.Patch(t.Context(), names.Agent, types.MergePatchType, []byte(`{"metadata":{"annotations":{"fleet.cattle.io/hub-uid":null}}}`), metav1.PatchOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			}
		}},
	}
	hub := hub(t)
	ws := workspace(t, hub, "ws-kept")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mend := test.does(t, reach(t, east(t).Config()), name)
			writeSecret(t, hub, ws, name, map[string][]byte{"value": kubeconfig(t)})
			began := time.Now()
			c := awaitImported(t, hub, newImport(t, hub, ws, name), test.reason)
			t.Logf("said after %s", time.Since(began))
			mended := time.Now()
			mend(NewWithT(t))
			if test.reason == conditions.ReasonAgentPodRejected { // all is there, and the agent comes by itself
				awaitPod(t, name)
				expectJoins(t, givenTo(t, c), c)
			}
			c = awaitImported(t, hub, c, "")
			t.Logf("over after %s", time.Since(mended))
			if test.reason != conditions.ReasonAgentPodRejected {
				expectJoins(t, expectApplied(t, c), c)
			}
		})
	}
}

func TestSilentServer_IsReportedAndImportedAfterRepair(t *testing.T) {
	hub := hub(t)
	ws := workspace(t, hub, "ws-hole")
	hole := silent(t)
	writeSecret(t, hub, ws, "hole", map[string][]byte{"value": kubeconfig(t, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = hole })})
	began := time.Now()
	c := newImport(t, hub, ws, "hole")
	awaitImported(t, hub, c, conditions.ReasonDownstreamUnreachable)
	t.Logf("said after %s", time.Since(began))
	writeSecret(t, hub, ws, "hole", map[string][]byte{"value": kubeconfig(t)})
	c = awaitImported(t, hub, c, "")
	expectJoins(t, expectApplied(t, c), c)
}

// The agents of these tests never start, so they send no requests.
func TestAgentThatNeverJoins_GetsAFreshToken(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-never")
	writeSecret(t, hub, ws, "never", map[string][]byte{"value": kubeconfig(t)})
	c := awaitImported(t, hub, newImport(t, hub, ws, "never"), "")
	first := givenTo(t, c)
	awaitPod(t, "never")
	ahead.Store(int64(6 * time.Minute))
	defer ahead.Store(0)
	touch(t, hub, c)
	eventually(t, func(g Gomega) {
		found, err := secret(t.Context(), reach(t, east(t).Config()), "never", names.AgentBootstrap)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(found.Data["token"])).NotTo(Equal(first.Token))
	})
	eventually(t, func(g Gomega) { // the API server remembers an account for a moment
		holder := reach(t, as(control.Plane(t).Hub, first.Token))
		g.Expect(isRefused(holder.Create(t.Context(), client.ClusterRegistrations, newRequest(ws, c.Spec.ClientID, "late", first.TokenName)))).To(BeTrue())
	})
	c = awaitImported(t, hub, c, "")
	second := givenTo(t, c)
	g.Expect(second.TokenName).To(Equal(first.TokenName))
	expectJoins(t, second, c)

	// One that has joined is left in peace, whatever becomes of the token.
	g.Expect(hub.Delete(t.Context(), client.Tokens, ws, first.TokenName)).To(Succeed())
	eventually(t, func(g Gomega) {
		found := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, ws, c.Name, found)).To(Succeed())
		g.Expect(found.Status.Agent.LastSeen.IsZero()).To(BeFalse())
	})
	awaitIdle(t, hub, "ws-never-idle")
	g.Expect(givenTo(t, c)).To(Equal(second))
}

func TestDeletedImportToken_IsReplaced(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-lost")
	writeSecret(t, hub, ws, "lost", map[string][]byte{"value": kubeconfig(t)})
	c := awaitImported(t, hub, newImport(t, hub, ws, "lost"), "")
	first := givenTo(t, c)
	g.Expect(hub.Delete(t.Context(), client.Tokens, ws, first.TokenName)).To(Succeed())
	eventually(t, func(g Gomega) {
		found, err := secret(t.Context(), reach(t, east(t).Config()), "lost", names.AgentBootstrap)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(found.Data["token"])).NotTo(Equal(first.Token))
	})
	expectJoins(t, givenTo(t, c), c)
}
