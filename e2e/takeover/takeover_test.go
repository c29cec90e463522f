// Package takeover_test puts our controllers on a hub that the other implementation has run: what they change there,
// and what not.
//
//	the recorded objects ─► its agents' heartbeats ─► our charts ─► what was written, by the audit log
package takeover_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// hub is one that the other implementation has run, and whose charts are upgraded to ours.
type hub struct {
	*framework.World
	old *oldHub
}

func start(t *testing.T) *hub {
	t.Helper()
	world, err := framework.Start(t.Context(), framework.Options{Audit: true, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{World: world}
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs: %s", h.LogDir)
			return
		}
		if err := h.RemoveLogs(); err != nil {
			t.Error(err)
		}
	})
	if h.old, err = newOldHub(h.Plane.Hub.Config(), h.Plane.Hub.URL, h.Plane.Hub.CA, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := h.old.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestTakeOver tells it in order; each step needs the one before.
func TestTakeOver(t *testing.T) {
	h := start(t)
	agents := registered()
	for _, a := range agents {
		h.beat(t, a)
	}
	before := h.objects(t)

	t.Run("what the first start writes", func(t *testing.T) {
		if err := h.InstallHub(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		NewWithT(t).Eventually(func() []string { return h.here(sorted(h.writes(t, 0))) }).
			WithContext(t.Context()).WithTimeout(2 * framework.Patience).WithPolling(time.Second).Should(ContainElements(firstWrites()))
		h.settles(t, 1)
		if diff := cmp.Diff(firstWrites(), h.here(sorted(h.writes(t, 0)))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("what the old hub left stays, but for what is ours to say", func(t *testing.T) {
		maps.DeleteFunc(before, func(object, _ string) bool {
			return strings.HasPrefix(object, "ClusterRoleBinding /request-") // see firstWrites
		})
		if diff := cmp.Diff(before, h.objects(t)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("the agents are inherited, and nobody is alarmed", func(t *testing.T) {
		for _, a := range agents {
			condition := h.condition(t, a, conditions.AgentManaged)
			if condition.Status != corev1.ConditionFalse || condition.Reason != conditions.ReasonAgentInherited || conditions.IsTrouble(condition) {
				t.Errorf("cluster %s says %+v", a.cluster, condition)
			}
		}
	})
	t.Run("old agents go on as before", func(t *testing.T) {
		for _, a := range agents {
			h.beat(t, a)
			h.works(t, a)
		}
	})
	t.Run("a second start writes only the hub document", func(t *testing.T) {
		past := len(h.writes(t, 0))
		pods := h.Hub.Kube.CoreV1().Pods(names.SystemNamespace)
		if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=fleet-controller"}); err != nil {
			t.Fatal(err)
		}
		h.settles(t, 2)
		if again := h.writes(t, past); len(again) > 0 {
			t.Errorf("it wrote %q", again)
		}
	})
	t.Run("an agent is taken over when the operator says so", func(t *testing.T) { h.takeOver(t, agents["west"]) })
	t.Run("a new cluster registers", h.register)
	t.Run("a Cluster that goes takes all along that was made for it", func(t *testing.T) { h.remove(t, agents["east"]) })
}

// firstWrites are all that our controllers change on a hub that they take over, with the names that were recorded.
func firstWrites() []string {
	return []string{
		"create clusterrolebindings /fleet-content-readers-06", // what agents share, instead of one each
		"create clusterrolebindings /fleet-content-readers-07",
		"create clusterrolebindings /fleet-content-readers-08",
		"create configmaps kube-public/fleet-hub",
		"create rolebindings fleet-default/fleet-recovery", // with which agents that lose their credential return
		"create rolebindings fleet-local/fleet-recovery",
		"create roles fleet-default/fleet-recovery",
		"create roles fleet-local/fleet-recovery",
		"create secrets cattle-fleet-system/fleet-hub-key",
		"create secrets fleet-default/fleet-recovery-token",
		"create secrets fleet-local/fleet-recovery-token",
		"create serviceaccounts fleet-default/fleet-recovery",
		"create serviceaccounts fleet-local/fleet-recovery",
		"delete clusterrolebindings /request-5k4nm-content",
		"delete clusterrolebindings /request-pvwtt-content",
		"delete clusterrolebindings /request-sbpkm-content",
		"patch clusters fleet-local/local",                               // which labels are the bootstrap's
		"patch namespaces cattle-fleet-system/cattle-fleet-system",       // the set of every hub, which the local agent's had taken
		"update clusterregistrations/status fleet-default/request-5k4nm", // our condition Granted
		"update clusterregistrations/status fleet-default/request-pvwtt",
		"update clusterregistrations/status fleet-local/request-sbpkm",
		"update clusterregistrationtokens/status fleet-default/import-token-east", // our condition Ready
		"update clusterregistrationtokens/status fleet-default/swarm",
		"update clusterregistrationtokens/status fleet-local/import-token-local",
		"update clusters/status fleet-default/cluster-3f8a81b9896a", // our conditions
		"update clusters/status fleet-default/east",                 //
		"update clusters/status fleet-local/local",                  //
	}
}

// takeOver gives the order for one agent, and looks at what is delivered to it then, and to the others.
func (h *hub) takeOver(t *testing.T, a agent) {
	past := len(h.writes(t, 0))
	bundle := names.AgentBundle(a.cluster)
	var before fleet.BundleDeployment
	if err := h.Hub.Get(t.Context(), client.BundleDeployments, a.namespace, bundle, &before); err != nil {
		t.Fatal(err)
	}
	order := []byte(`{"metadata":{"annotations":{"` + annotation.TakeOverAgent + `":"true"}}}`)
	if err := h.Hub.Patch(t.Context(), client.Clusters, a.workspace, a.cluster, order); err != nil {
		t.Fatal(err)
	}
	after, err := client.Until(t.Context(), client.Await{
		From: h.Hub.Fleet, Resource: client.BundleDeployments, Namespace: a.namespace, Name: bundle, For: "our agent to be delivered", Within: framework.Patience,
	}, func(d *fleet.BundleDeployment) bool { return d.Spec.DeploymentID != before.Spec.DeploymentID })
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID {
		t.Error("it is another BundleDeployment, and the agent would forget its release")
	}
	NewWithT(t).Eventually(func(g Gomega) {
		var ours fleet.Bundle
		g.Expect(h.Hub.Get(t.Context(), client.Bundles, a.workspace, bundle, &ours)).To(Succeed())
		g.Expect(importing.AppliedElsewhere(&ours)).To(BeFalse(), "the Bundle still looks like another implementation's")
		g.Expect(h.condition(t, a, conditions.AgentManaged)).To(HaveField("Status", corev1.ConditionTrue))
	}).WithContext(t.Context()).WithTimeout(framework.Patience).Should(Succeed())
	h.settles(t, 2)
	for _, line := range h.writes(t, past) {
		if !strings.Contains(line, a.cluster) && !strings.Contains(line, "contents") && !strings.Contains(line, "clustergroups/status") {
			t.Errorf("one agent was taken over, and it wrote %q", line)
		}
	}
	h.works(t, a)
}

// register has a cluster join with the old hub's token, which nobody had to renew.
func (h *hub) register(t *testing.T) {
	secret, err := h.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(t.Context(), "swarm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	values, err := protocol.ParseValues(secret.Data[protocol.ValuesKey])
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(h.Plane.Hub.Config())
	cfg.BearerToken = values.Token
	joining, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, GenerateName: "request-", Labels: map[string]string{"fleet.cattle.io/registration-token": "swarm"}},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: "south", ClientRandom: "random"},
	}
	if err := joining.Create(t.Context(), client.ClusterRegistrations, request); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func(g Gomega) {
		found, err := joining.Kube.CoreV1().Secrets(names.RegistrationNamespace(names.SystemNamespace)).Get(t.Context(), names.CredentialSecret("south", "random"), metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Data).To(HaveKey("token"))
	}).WithContext(t.Context()).WithTimeout(framework.Patience).Should(Succeed())
}

// remove deletes a Cluster, and looks for what is left of what the old hub had made for it.
func (h *hub) remove(t *testing.T, a agent) {
	if err := h.Hub.Delete(t.Context(), client.Clusters, a.workspace, a.cluster); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func(g Gomega) {
		var left []string
		for _, k := range kinds() {
			list, err := h.old.client.Resource(k.resource).List(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			for _, object := range list.Items {
				if about(object.Object, a) {
					left = append(left, k.name+" "+object.GetNamespace()+"/"+object.GetName())
				}
			}
		}
		g.Expect(left).To(ConsistOf("Secret fleet-default/east-kubeconfig"), "the user's")
	}).WithContext(t.Context()).WithTimeout(2 * framework.Patience).Should(Succeed())
}

// about says whether an object was made for a cluster.
func about(object map[string]any, a agent) bool {
	object = runtime.DeepCopyJSON(object)
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	namespace, _, _ := unstructured.NestedString(object, "metadata", "namespace")
	return namespace == a.namespace || name == a.namespace || strings.Contains(name, a.request) || strings.Contains(name, "-"+a.cluster) || name == a.cluster || strings.HasPrefix(name, a.cluster+"-")
}
