package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// killer kills the agent of a cluster once for each kind of request, after the hub has answered and before the
// agent gets the response.
type killer struct {
	cluster string

	mu    sync.Mutex
	kills []string
	err   error
}

// after returns the rule for one kind of request.
func (k *killer) after(ctx context.Context, verb, resource string) faults.Rule {
	return faults.Rule{Match: faults.Match{Verb: verb, Resource: resource}, Fault: faults.After(func(_ faults.Request, code int) {
		if code < 300 {
			k.kill(ctx, verb+" "+resource)
		}
	})}
}

func (k *killer) kill(ctx context.Context, after string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(k.kills, after) {
		return
	}
	pods, err := world.On(k.cluster).Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + names.Agent})
	if err == nil && len(pods.Items) != 1 {
		err = fmt.Errorf("%d pods", len(pods.Items))
	}
	if err == nil {
		err = world.KillPod(ctx, k.cluster, names.SystemNamespace, pods.Items[0].Name)
	}
	if err != nil {
		k.err = fmt.Errorf("killing the agent after %s: %w", after, err)
		return
	}
	k.kills = append(k.kills, after)
}

func (k *killer) done() ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.kills), k.err
}

// storedAccess returns the stored hub access of a cluster's agent.
func storedAccess(ctx SpecContext, cluster string) hubclient.Access {
	GinkgoHelper()
	secret, err := world.On(cluster).Kube.CoreV1().Secrets(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	identity, err := protocol.ParseIdentity(secret.Data)
	Expect(err).NotTo(HaveOccurred())
	access, err := hubclient.ParseKubeconfig(identity.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	return access
}

var _ = Describe("An agent survives failures", Ordered, func() {
	const clientID = "the-rough-one"
	var (
		proxy   *faults.Proxy
		values  map[string]any
		cluster *fleet.Cluster
	)

	BeforeAll(func() {
		var err error
		proxy, err = faults.NewProxy(faults.Server{URL: world.Plane.Hub.URL, CA: world.Plane.Hub.CA}, time.Now())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = proxy.Close() }) // a story may have closed it
	})
	AfterAll(func(ctx SpecContext) { unregister(ctx, names.Cluster(clientID)) })

	It("is killed after each kind of request: it is registered once", func(ctx SpecContext) {
		k := &killer{cluster: spare}
		for _, request := range [][2]string{
			{"create", "clusterregistrations"}, {"get", "secrets"}, {"list", "bundledeployments"}, {"patch", "clusters/status"},
		} {
			proxy.Add(k.after(ctx, request[0], request[1]))
		}
		// A credential that is created shortly after the right to read it would arrive by a watch, and never be
		// read with get.
		proxy.Add(faults.Rule{Match: faults.Match{Verb: "watch", Resource: "secrets"}, Fault: faults.Answer(http.StatusForbidden)})
		var err error
		values, err = world.TokenValues(ctx, spare)
		Expect(err).NotTo(HaveOccurred())
		values["apiServerURL"], values["apiServerCA"] = proxy.URL, string(proxy.CA)
		values["clientID"], values["agentCheckinInterval"] = clientID, checkin
		Expect(world.InstallAgent(ctx, spare, values)).To(Succeed())

		By("being killed four times")
		Eventually(func(g Gomega) {
			kills, err := k.done()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(kills).To(HaveLen(4))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		proxy.Clear()

		By("registering nevertheless, with one Cluster and one registration")
		cluster, err = world.Joined(ctx, framework.Workspace, spare, func(c *fleet.Cluster) bool { return c.Spec.ClientID == clientID })
		Expect(err).NotTo(HaveOccurred())
		cluster, err = world.SeenAfter(ctx, cluster, cluster.Status.Agent.LastSeen.Time, framework.Patience)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			requests, err := world.Registrations(ctx, framework.Workspace, clientID)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(requests).To(HaveLen(1))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		var clusters fleet.ClusterList
		Expect(world.Hub.List(ctx, client.Clusters, framework.Workspace, &clusters)).To(Succeed())
		for _, other := range clusters.Items {
			Expect(other.Spec.ClientID == clientID).To(Equal(other.Name == cluster.Name), other.Name)
		}
		Expect(storedAccess(ctx, spare).Server).To(Equal(proxy.URL))
		Eventually(func(g Gomega) {
			_, err := world.On(spare).Kube.CoreV1().Secrets(names.SystemNamespace).Get(ctx, names.AgentBootstrap, metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the bootstrap secret is still there: %v", err)
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("sees its connections reset and its hub impersonated: it keeps its identity", func(ctx SpecContext) {
		before, err := world.Registrations(ctx, framework.Workspace, clientID)
		Expect(err).NotTo(HaveOccurred())
		proxy.Cut()
		proxy.Impersonate(true)
		Eventually(func(g Gomega) {
			pod, err := world.AgentPod(ctx, spare)
			g.Expect(err).NotTo(HaveOccurred())
			log, err := world.PodLog(spare, pod.Namespace, pod.Name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(log)).To(ContainSubstring("signed by unknown authority"))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		proxy.Impersonate(false)
		_, err = world.SeenAfter(ctx, cluster, time.Now(), framework.Patience)
		Expect(err).NotTo(HaveOccurred())
		after, err := world.Registrations(ctx, framework.Workspace, clientID)
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal(before), "the agent registered anew")
	})

	It("gets another address and CA of its hub by helm upgrade: it keeps its identity", func(ctx SpecContext) {
		before, err := world.Registrations(ctx, framework.Workspace, clientID)
		Expect(err).NotTo(HaveOccurred())
		want := storedAccess(ctx, spare)
		want.Server, want.CA = world.Plane.Hub.URL, world.Plane.Hub.CA

		values["apiServerURL"], values["apiServerCA"] = want.Server, string(want.CA)
		Expect(world.InstallAgent(ctx, spare, values)).To(Succeed())
		Eventually(func() hubclient.Access { return storedAccess(ctx, spare) }).WithContext(ctx).WithTimeout(framework.Patience).Should(Equal(want))
		Expect(proxy.Close()).To(Succeed())
		_, err = world.SeenAfter(ctx, cluster, time.Now(), framework.Patience)
		Expect(err).NotTo(HaveOccurred())
		after, err := world.Registrations(ctx, framework.Workspace, clientID)
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal(before), "the agent registered anew")
	})
})

var _ = Describe("An agent moves to another namespace", Ordered, func() {
	const (
		nomad = "nomad"
		here  = "fleet-here"
		there = "fleet-there"
	)

	AfterAll(func(ctx SpecContext) { unregister(ctx, nomad) })

	It("registers from the first", func(ctx SpecContext) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: nomad},
			Data:       map[string][]byte{protocol.KubeconfigValueKey: world.Cluster(spare).Kubeconfig},
		}
		_, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Create(ctx, secret, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: nomad},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: nomad, AgentNamespace: here},
		})).To(Succeed())
		joined, err := world.Joined(ctx, framework.Workspace, nomad, framework.Named(nomad))
		Expect(err).NotTo(HaveOccurred())
		Expect(joined.Status.Agent.Namespace).To(Equal(here))
	})

	It("registers from the second, and leaves nothing in the first", func(ctx SpecContext) {
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, nomad, []byte(`{"spec":{"agentNamespace":"`+there+`"}}`))).To(Succeed())
		_, err := world.Joined(ctx, framework.Workspace, nomad, func(c *fleet.Cluster) bool { return c.Name == nomad && c.Status.Agent.Namespace == there })
		Expect(err).NotTo(HaveOccurred())
		downstream := world.On(spare).Kube
		Eventually(func(g Gomega) {
			_, err := downstream.CoreV1().Namespaces().Get(ctx, here, metav1.GetOptions{})
			if err == nil {
				_, err = downstream.AppsV1().Deployments(here).Get(ctx, names.Agent, metav1.GetOptions{})
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the agent's Deployment is still there: %v", err)
				_, err = downstream.CoreV1().Secrets(here).Get(ctx, names.Agent, metav1.GetOptions{})
			}
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the agent's identity is still there: %v", err)
			var cluster fleet.Cluster
			g.Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, nomad, &cluster)).To(Succeed())
			requests, err := world.Registrations(ctx, framework.Workspace, cluster.Spec.ClientID)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(requests).To(HaveLen(1))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})
})
