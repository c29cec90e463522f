package settings

import (
	"encoding/base64"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// marker is a Cluster without an agent.
const marker = "marker"

// identity is what must survive: the agent's registration and account on the hub.
type identity struct {
	registrations, accounts []types.UID
}

func identityOf(ctx SpecContext, cluster *fleet.Cluster) (found identity) {
	GinkgoHelper()
	var requests fleet.ClusterRegistrationList
	Expect(world.Hub.List(ctx, client.ClusterRegistrations, cluster.Namespace, &requests)).To(Succeed())
	for _, request := range requests.Items {
		found.registrations = append(found.registrations, request.UID)
	}
	accounts, err := world.Hub.Kube.CoreV1().ServiceAccounts(cluster.Status.Namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, account := range accounts.Items {
		if account.Annotations[fleet.AnnotationClusterRegistration] != "" {
			found.accounts = append(found.accounts, account.UID)
		}
	}
	return found
}

// replicaSets are those of the agent, by name.
func replicaSets(ctx SpecContext) (found []string) {
	GinkgoHelper()
	list, err := world.On(east).Kube.AppsV1().ReplicaSets(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + names.Agent})
	Expect(err).NotTo(HaveOccurred())
	for _, set := range list.Items {
		found = append(found, set.Name)
	}
	sort.Strings(found)
	return found
}

// now is the Cluster as it is at this moment.
func now(ctx SpecContext) *fleet.Cluster {
	GinkgoHelper()
	var cluster fleet.Cluster
	Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, east, &cluster)).To(Succeed())
	return &cluster
}

// writes are what the hub's controllers have written since the log was last read, but leases, Events and the
// marker.
func writes(log *audit.Log) (found []string) {
	GinkgoHelper()
	events, err := log.Next()
	Expect(err).NotTo(HaveOccurred())
	for _, e := range events {
		switch {
		case !e.Counts(), !strings.HasPrefix(e.UserAgent, "fleetcontroller"), e.Verb == "get", e.Verb == "list", e.Verb == "watch",
			e.Object.Resource == "leases", e.Object.Resource == "events", strings.Contains(e.URI, marker):
			continue
		}
		found = append(found, fmt.Sprintf("%s %s %s/%s", e.Verb, e.Resource(), e.Object.Namespace, e.Object.Name))
	}
	return found
}

var _ = Describe("A changed setting reaches a running agent", Ordered, func() {
	var (
		before      identity
		onHub, here *audit.Log
		token       string
		looks       int
	)

	// stored is the kubeconfig that the agent keeps.
	stored := func(ctx SpecContext) (server string, ca []byte, bearer string) {
		GinkgoHelper()
		secret, err := world.On(east).Kube.CoreV1().Secrets(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
		Expect(err).NotTo(HaveOccurred())
		return config.Host, config.CAData, config.BearerToken
	}

	// lookAgain has the hub look at the Cluster once more, and waits until it has looked at another one since, on which
	// the marks of that can be seen.
	lookAgain := func(ctx SpecContext) {
		GinkgoHelper()
		looks++
		touch := fmt.Sprintf(`{"metadata":{"annotations":{"story":"look %d"}}}`, looks)
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, east, []byte(touch))).To(Succeed())
		clientID, imported := "", corev1.ConditionFalse
		if looks%2 == 0 {
			clientID, imported = marker, corev1.ConditionTrue
		}
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, marker, fmt.Appendf(nil, `{"spec":{"clientID":%q}}`, clientID))).To(Succeed())
		_, err := client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Clusters, Namespace: framework.Workspace, Name: marker, For: "a look at another Cluster", Within: framework.Patience,
		}, func(c *fleet.Cluster) bool {
			condition := conditions.Get(c.Status.Conditions, conditions.Imported)
			return condition != nil && condition.Status == imported
		})
		Expect(err).NotTo(HaveOccurred())
	}

	// settled waits until the agent runs as its Bundle says and the hub has seen it since, and has nothing to write.
	settled := func(ctx SpecContext) {
		GinkgoHelper()
		cluster := now(ctx)
		_, _, err := world.Managed(ctx, east, cluster)
		Expect(err).NotTo(HaveOccurred())
		_, err = world.Ready(ctx, cluster, 0)
		Expect(err).NotTo(HaveOccurred())
		_, err = world.SeenAfter(ctx, cluster, now(ctx).Status.Agent.LastSeen.Time, framework.Patience)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			lookAgain(ctx)
			g.Expect(writes(onHub)).To(BeEmpty(), "the hub has written again on itself")
			g.Expect(writes(here)).To(BeEmpty(), "the hub has written again downstream")
		}).WithContext(ctx).WithTimeout(framework.Patience).WithPolling(time.Second).Should(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		Expect(world.Import(ctx, east, nil)).To(Succeed())
		Expect(world.Hub.Create(ctx, client.Clusters, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: marker}})).To(Succeed())
		cluster, err := world.Joined(ctx, framework.Workspace, east, framework.Named(east))
		Expect(err).NotTo(HaveOccurred())
		onHub, err = audit.NewLog(world.Plane.Hub.AuditLog)
		Expect(err).NotTo(HaveOccurred())
		here, err = audit.NewLog(world.Downstreams[0].AuditLog)
		Expect(err).NotTo(HaveOccurred())
		settled(ctx)
		before = identityOf(ctx, cluster)
		Expect(before.registrations).To(HaveLen(1))
		Expect(before.accounts).To(HaveLen(1))
		_, _, token = stored(ctx)
	})

	// same fails unless the agent is who it was, and the hub looks at it without writing anything, once all is done.
	same := func(ctx SpecContext) {
		GinkgoHelper()
		settled(ctx)
		Expect(identityOf(ctx, now(ctx))).To(Equal(before), "the agent has another identity")
		_, _, bearer := stored(ctx)
		Expect(bearer).To(Equal(token))
	}

	DescribeTable("with one new ReplicaSet", func(ctx SpecContext, patch string, shown func(corev1.PodSpec) any, want any, importer []string) {
		sets := replicaSets(ctx)
		writes(here)
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, east, []byte(`{"spec":`+patch+`}`))).To(Succeed())
		Eventually(func(g Gomega) {
			deployment, err := world.On(east).Kube.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shown(deployment.Spec.Template.Spec)).To(Equal(want))
			g.Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
			g.Expect(deployment.Status.UpdatedReplicas).To(BeEquivalentTo(1))
			pod, err := world.AgentPod(ctx, east)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shown(pod.Spec)).To(Equal(want))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		Expect(slices.Compact(slices.Sorted(slices.Values(writes(here))))).To(Equal(importer), "what the import has written downstream")
		same(ctx)
		after := replicaSets(ctx)
		Expect(after).To(HaveLen(len(sets) + 1))
		Expect(after).To(ContainElements(sets))
	},
		Entry("of tolerations", `{"agentTolerations":[{"key":"b","operator":"Exists"},{"key":"a","operator":"Exists"}]}`,
			func(p corev1.PodSpec) any { return keys(p.Tolerations) }, []string{"a", "b"}, nil),
		Entry("of several at once", `{"agentEnvVars":[{"name":"STORY","value":"told"}],"agentResources":{"requests":{"cpu":"10m"}},"agentTolerations":[]}`,
			func(p corev1.PodSpec) any {
				agent := p.Containers[0]
				return []any{agent.Env[len(agent.Env)-1], agent.Resources.Requests.Cpu().String(), keys(p.Tolerations)}
			}, []any{corev1.EnvVar{Name: "STORY", Value: "told"}, "10m", []string(nil)}, nil),
		Entry("of a priority, with its class created first", `{"agentSchedulingCustomization":{"priorityClass":{"value":1000}},"agentResources":null}`,
			func(p corev1.PodSpec) any {
				return []string{p.PriorityClassName, p.Containers[0].Resources.Requests.Cpu().String()}
			}, []string{"fleet-agent-priority-class", "0"}, []string{
				"patch configmaps cattle-fleet-system/fleet-agent", "patch priorityclasses /fleet-agent-priority-class",
			}),
	)

	It("without a new ReplicaSet, if only the order of tolerations changes", func(ctx SpecContext) {
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, east, []byte(`{"spec":{"agentTolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}`))).To(Succeed())
		same(ctx)
		sets := replicaSets(ctx)
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, east, []byte(`{"spec":{"agentTolerations":[{"key":"b","operator":"Exists"},{"key":"a","operator":"Exists"}]}}`))).To(Succeed())
		same(ctx)
		Expect(replicaSets(ctx)).To(Equal(sets))
	})

	It("and deletes a PriorityClass that is no longer set", func(ctx SpecContext) {
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, east, []byte(`{"spec":{"agentSchedulingCustomization":null}}`))).To(Succeed())
		Eventually(func(g Gomega) {
			classes, err := world.On(east).Kube.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{LabelSelector: fleet.LabelSetHash})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(classes.Items).To(BeEmpty())
			g.Expect(now(ctx).Status.AgentSchedulingCustomizationHash).To(BeEmpty())
			imported := conditions.Get(now(ctx).Status.Conditions, conditions.Imported)
			g.Expect(imported.Status).To(Equal(corev1.ConditionTrue))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		same(ctx)
	})

	It("without a new ReplicaSet and in the same pod, if it is the hub's CA", func(ctx SpecContext) {
		sets := replicaSets(ctx)
		pod, err := world.AgentPod(ctx, east)
		Expect(err).NotTo(HaveOccurred())
		server, ca, _ := stored(ctx)
		renewed := append(append([]byte(nil), ca...), ca...) // a bundle, as during a rotation
		patch := fmt.Sprintf(`{"data":{"apiServerCA":%q}}`, base64.StdEncoding.EncodeToString(renewed))
		_, err = world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Patch(ctx, east+"-kubeconfig", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			host, kept, _ := stored(ctx)
			g.Expect(host).To(Equal(server))
			g.Expect(kept).To(Equal(renewed))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		same(ctx)
		Expect(replicaSets(ctx)).To(Equal(sets))
		after, err := world.AgentPod(ctx, east)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(pod.UID))
		Expect(framework.Restarts(after)).To(Equal(framework.Restarts(pod)))
	})
})

// keys are those of the tolerations beside the agent's own and the API server's.
func keys(tolerations []corev1.Toleration) (found []string) {
	for _, toleration := range tolerations {
		if len(toleration.Key) == 1 {
			found = append(found, toleration.Key)
		}
	}
	return found
}
