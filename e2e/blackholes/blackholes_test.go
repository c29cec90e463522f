package blackholes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// dead is the number of unreachable clusters.
const dead = 500

// many is far more than the number of concurrent imports. If unreachable clusters occupied all of them, no other
// cluster would be imported within a test's patience.
const many = 100

// creators is the number of clusters that are created at the same time.
const creators = 8

var _ = Describe("A reachable cluster among five hundred unreachable ones", Ordered, func() {
	var black *hole

	BeforeAll(func(ctx SpecContext) {
		var err error
		black, err = openHole()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(black.listener.Close)
		createDead(ctx, black)
	})

	It("is imported before they get their namespaces, although it was created last", func(ctx SpecContext) {
		Expect(expectImported(ctx, black, east)).To(BeNumerically("<", dead/2))
	})

	It("is imported while their imports are retried", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			said := 0
			for _, c := range deadClusters(ctx, g) {
				if isUnreachable(&c) && c.Status.Namespace != "" && c.Spec.ClientID != "" {
					said++
				}
			}
			g.Expect(said).To(Equal(dead), "all of them say what is wrong, and have what every Cluster has")
			g.Expect(black.asked().Open).To(BeNumerically(">", many))
		}).WithContext(ctx).WithTimeout(2 * framework.Patience).WithPolling(500 * time.Millisecond).Should(Succeed())
		expectImported(ctx, black, west)
	})

	It("has at most one request to each of them at a time", func() {
		Expect(black.asked().Most).To(BeNumerically("<=", dead))
	})
})

// createDead creates a Secret and a Cluster for each kubeconfig of an unreachable cluster.
func createDead(ctx context.Context, black *hole) {
	GinkgoHelper()
	numbers, failed := make(chan int), make(chan error, creators)
	var creating sync.WaitGroup
	for range creators {
		creating.Go(func() {
			for n := range numbers {
				if err := createOne(ctx, black, fmt.Sprintf("dead-%03d", n)); err != nil {
					failed <- err
					for range numbers { //nolint:revive // until there are no more
					}
				}
			}
		})
	}
	for n := range dead {
		numbers <- n
	}
	close(numbers)
	creating.Wait()
	close(failed)
	Expect(<-failed).NotTo(HaveOccurred())
}

func createOne(ctx context.Context, black *hole, name string) error {
	kubeconfig, err := black.kubeconfig(name)
	if err != nil {
		return err
	}
	return importWith(ctx, name, kubeconfig)
}

// importWith creates a Secret and a Cluster whose agent has its own namespace.
func importWith(ctx context.Context, name string, kubeconfig []byte) error {
	_, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-kubeconfig"},
		Data:       map[string][]byte{protocol.KubeconfigValueKey: kubeconfig},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return world.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name + "-kubeconfig", AgentNamespace: name},
	})
}

func isUnreachable(c *fleet.Cluster) bool {
	imported := conditions.Get(c.Status.Conditions, conditions.Imported)
	return imported != nil && imported.Reason == conditions.ReasonDownstreamUnreachable
}

// deadClusters returns the unreachable Clusters.
func deadClusters(ctx context.Context, g Gomega) (found []fleet.Cluster) {
	var clusters fleet.ClusterList
	g.Expect(world.Hub.List(ctx, client.Clusters, framework.Workspace, &clusters)).To(Succeed())
	for _, c := range clusters.Items {
		if strings.HasPrefix(c.Name, "dead-") {
			found = append(found, c)
		}
	}
	return found
}

// prepared returns how many of them had a namespace before the given object was written.
func prepared(ctx context.Context, write metav1.Object) (count int) {
	GinkgoHelper()
	namespaces, err := world.Hub.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: fleet.LabelManaged + "=true"})
	Expect(err).NotTo(HaveOccurred())
	for _, n := range namespaces.Items {
		order, err := resourceversion.CompareResourceVersion(n.ResourceVersion, write.GetResourceVersion())
		Expect(err).NotTo(HaveOccurred())
		if order < 0 && strings.HasPrefix(n.Annotations[fleet.AnnotationCluster], "dead-") {
			count++
		}
	}
	return count
}

// expectImported waits until a reachable cluster has its agent and prints the time. It returns how many other
// Clusters got a namespace meanwhile.
func expectImported(ctx context.Context, black *hole, name string) (meanwhile int) {
	GinkgoHelper()
	before, began := black.asked(), time.Now()
	Expect(importWith(ctx, name, world.Cluster(downstream).Kubeconfig)).To(Succeed())
	secret, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, name+"-kubeconfig", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	cluster, err := client.Until(ctx, client.Await{
		From: world.Hub.Fleet, Resource: client.Clusters, Namespace: framework.Workspace, Name: name,
		For: "its agent to be deployed", Within: framework.Patience,
	}, func(c *fleet.Cluster) bool {
		imported := conditions.Get(c.Status.Conditions, conditions.Imported)
		return imported != nil && imported.Status == corev1.ConditionTrue
	})
	Expect(err).NotTo(HaveOccurred())
	imported, had, have := time.Since(began), prepared(ctx, secret), prepared(ctx, cluster)
	_, err = world.Joined(ctx, framework.Workspace, name, framework.Named(name))
	Expect(err).NotTo(HaveOccurred())
	joined, now := time.Since(began), black.asked()
	AddReportEntry(name, fmt.Sprintf("its agent was deployed after %.2f s and first reported after %.2f s; of %d clusters that were being asked, %d answered nothing meanwhile; at most %d were asked at once; until its agent was deployed, %d were given a namespace, beside the %d that had one; %s",
		imported.Seconds(), joined.Seconds(), before.Open, now.Ended-before.Ended, now.Most, have-had, had, footprint(ctx)), ReportEntryVisibilityAlways)
	return have - had
}

// footprint returns the memory of the controllers.
func footprint(ctx context.Context) string {
	GinkgoHelper()
	pods, err := world.Hub.Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=fleet-controller"})
	Expect(err).NotTo(HaveOccurred())
	Expect(pods.Items).To(HaveLen(1))
	metrics, err := world.Scrape(ctx, framework.HubName, &pods.Items[0])
	Expect(err).NotTo(HaveOccurred())
	gauge := func(name string) float64 { return metrics[name].GetMetric()[0].GetGauge().GetValue() }
	return fmt.Sprintf("the controllers had %.0f goroutines and %.0f MiB", gauge("go_goroutines"), gauge("process_resident_memory_bytes")/(1<<20))
}
