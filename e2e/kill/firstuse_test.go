package kill_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// mostDeletions is how many used credentials are deleted together at most.
const mostDeletions = 32

// registrations is the namespace of credentials and the rights to read them.
var registrations = names.RegistrationNamespace(names.SystemNamespace)

// expectAnswersGone waits until there is no credential of these requests, nor a right to read one.
func expectAnswersGone(t *testing.T, ctx context.Context, h *hub, requests ...string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		left, err := answersOf(ctx, h, requests...)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(left).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// answersOf returns the credentials of requests and the rights to read them.
func answersOf(ctx context.Context, h *hub, requests ...string) (found []string, err error) {
	core, rbac := h.Hub.Kube.CoreV1().Secrets(registrations), h.Hub.Kube.RbacV1()
	secrets, err := core.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	roles, err := rbac.Roles(registrations).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	bindings, err := rbac.RoleBindings(registrations).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	of := map[string]bool{}
	for _, request := range requests {
		of[request] = true
	}
	add := func(kind string, o metav1.Object) {
		if of[o.GetAnnotations()[fleet.AnnotationClusterRegistration]] {
			found = append(found, kind+" "+o.GetName())
		}
	}
	for i := range secrets.Items {
		add("Secret", &secrets.Items[i])
	}
	for i := range roles.Items {
		add("Role", &roles.Items[i])
	}
	for i := range bindings.Items {
		add("RoleBinding", &bindings.Items[i])
	}
	return found, nil
}

// hangs counts the requests that wait for release, and the most that have waited at a time.
type hangs struct {
	release   chan struct{}
	now, most atomic.Int32
}

func (h *hangs) fault(request *http.Request, about faults.Request, next func() (*http.Response, error)) (*http.Response, error) {
	now := h.now.Add(1)
	defer h.now.Add(-1)
	for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); most = h.most.Load() {
	}
	return faults.Held(h.release)(request, about, next)
}

// The leader hangs after it has deleted the RoleBindings of used credentials, and is killed then. Meanwhile it does its
// other work.
func TestControllerKilledWhileItDeletesCredentials_NothingIsLeft(t *testing.T) {
	h := harmedHub(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	g := NewWithT(t)
	deletions := &hangs{release: make(chan struct{})}
	end := h.on(faults.Match{Verb: "deletecollection", Resource: "roles", Namespace: registrations}, deletions.fault)
	defer func() { g.Expect(end()).To(Succeed()) }()
	var all []*swarm.Agent
	var requests []string
	for i := range mostDeletions + 8 {
		agent := h.join(ctx, fmt.Sprintf("first-use-%02d", i))
		t.Cleanup(agent.Stop)
		all = append(all, agent)
	}
	g.Expect(h.swarm.Await(ctx, swarm.Settled, all...)).To(Succeed())
	for _, agent := range all {
		requests = append(requests, agent.State().Request)
	}
	g.Eventually(deletions.now.Load).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">", 0))

	other := h.join(ctx, "first-use-other")
	defer other.Stop()
	g.Expect(other.Await(ctx, swarm.Settled)).To(Succeed(), "while deletions hang")
	left, err := answersOf(ctx, h, requests...)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("while the leader is killed, %d deletions hang, at most %d did, and %d of %d objects are left", deletions.now.Load(), deletions.most.Load(), len(left), 3*len(all))
	g.Expect(len(left)).To(And(BeNumerically(">", len(all)), BeNumerically("<", 3*len(all))), "it is not in the middle: %v", left)

	leader := h.leader(t, ctx)
	leader.Kill()
	close(deletions.release)
	g.Expect(leader.Bury(ctx, h.Hub.Kube)).To(Succeed())
	expectAnswersGone(t, ctx, h, append(requests, other.State().Request)...)
	g.Expect(deletions.most.Load()).To(BeNumerically("==", 1), "requests that delete several at the same time")
	expectRegisteredOnce(t, ctx, h, append(all, other))
}

// An agent that dies after it has read its credential and before it has stored it registers again, and gets in. Agents of
// Rancher Fleet do the same, though their heartbeats do not name their account. Then a restart needs no credential.
func TestAgentKilledBeforeItStoresItsCredential_GetsIn(t *testing.T) {
	h := harmedHub(t)
	for name, settings := range map[string]swarm.Settings{
		"agent of this project":  {ClientID: "dies"},
		"agent of Rancher Fleet": {ClientID: "dies-polling", Poll: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			g := NewWithT(t)
			start := func(change func(*swarm.Settings)) *swarm.Agent {
				changed := settings
				change(&changed)
				agent := h.swarm.Add(changed)
				h.swarm.Start(ctx, agent)
				return agent
			}
			plan := &faults.Plan{}
			use := plan.On("list", client.BundleDeployments, faults.Silent()) // the first thing that it does with a credential
			dies := start(func(s *swarm.Settings) { s.Wrap = plan.Transport })
			g.Expect(use.Await(ctx, 1)).To(Succeed())
			dies.Stop()

			next := start(func(*swarm.Settings) {})
			g.Expect(next.Await(ctx, swarm.Settled)).To(Succeed())
			expectAnswersGone(t, ctx, h, dies.State().Request, next.State().Request)
			expectRegisteredOnce(t, ctx, h, []*swarm.Agent{next})
			next.Stop()

			restarted := start(func(s *swarm.Settings) { s.Credential = next.Credential() })
			defer restarted.Stop()
			g.Expect(restarted.Await(ctx, func(s swarm.State) bool { return swarm.Joined(s) && s.Watching })).To(Succeed())
			expectInlineValues(t, ctx, h, restarted)
			g.Expect(restarted.State()).To(And(HaveField("Registrations", 0), HaveField("Rejected", false)))
		})
	}
}

// expectInlineValues gives an agent a Bundle with plain values, in the BundleDeployment, and expects that it is deployed.
func expectInlineValues(t *testing.T, ctx context.Context, h *hub, agent *swarm.Agent) {
	t.Helper()
	c := agent.Credential()
	bundle := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: "values-of-" + agent.ClientID()}, Spec: fleet.BundleSpec{
		Resources: []fleet.BundleResource{{Name: "cm.yaml", Content: "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"}},
		Targets:   []fleet.BundleTarget{{ClusterName: c.ClusterName}},
	}}
	bundle.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": "b"}}}
	g := NewWithT(t)
	g.Expect(h.Hub.Create(ctx, client.Bundles, bundle)).To(Succeed())
	deployed, err := client.Until(ctx, client.Await{
		From: h.Hub.Fleet, Resource: client.BundleDeployments, Namespace: c.DeploymentNamespace, Name: bundle.Name, For: "its report", Within: patience,
	}, func(bd *fleet.BundleDeployment) bool {
		return bd.Status.Ready && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(deployed.Spec.ValuesHash).To(BeEmpty())
	g.Expect(deployed.Spec.Options.Helm.Values.Data).To(Equal(map[string]any{"a": "b"}))
	g.Expect(h.Hub.Delete(ctx, client.Bundles, framework.Workspace, bundle.Name)).To(Succeed())
}
