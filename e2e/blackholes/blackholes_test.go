package blackholes

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// dead is how many clusters are not there.
const dead = 500

// creators is how many clusters are created at once.
const creators = 8

var _ = Describe("A good cluster beside five hundred that are not there", Ordered, func() {
	var black *hole

	BeforeAll(func(ctx SpecContext) {
		var err error
		black, err = openHole()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(black.listener.Close)
		createDead(ctx, black)
	})

	It("is imported while they are asked for the first time", func(ctx SpecContext) {
		_, err := unreachable(ctx)
		Expect(err).NotTo(HaveOccurred())
		expectImported(ctx, black, east)
	})

	It("is imported while they are asked again", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			var clusters fleet.ClusterList
			g.Expect(world.Hub.List(ctx, client.Clusters, framework.Workspace, &clusters)).To(Succeed())
			said := 0
			for i := range clusters.Items {
				if isUnreachable(&clusters.Items[i]) {
					said++
				}
			}
			g.Expect(said).To(Equal(dead), "all of them say what is wrong")
			g.Expect(black.asked().Open).To(BeNumerically(">", dead/2))
		}).WithContext(ctx).WithTimeout(framework.Patience).WithPolling(500 * time.Millisecond).Should(Succeed())
		before := black.asked()
		expectImported(ctx, black, west)
		// Whoever stands in line behind them gets its turn when nearly all have had theirs.
		Expect(black.asked().Ended - before.Ended).To(BeNumerically("<", dead*4/5))
	})

	It("leaves each of them one question at a time", func() {
		Expect(black.asked().Most).To(BeNumerically("<=", dead))
	})
})

// createDead does what an admin does who has kubeconfigs of clusters that are gone: a Secret and a Cluster for each.
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
	_, err = world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-kubeconfig"},
		Data:       map[string][]byte{handshake.KubeconfigValueKey: kubeconfig},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return world.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name + "-kubeconfig"},
	})
}

func isUnreachable(c *fleet.Cluster) bool {
	imported := fleet.GetCondition(c.Status.Conditions, fleet.ConditionImported)
	return imported != nil && imported.Reason == fleet.ReasonDownstreamUnreachable
}

// unreachable waits until one of the clusters says that nobody is there.
func unreachable(ctx context.Context) (*fleet.Cluster, error) {
	return client.Until(ctx, client.Await{
		From: world.Hub.Fleet, Resource: client.Clusters, Namespace: framework.Workspace,
		For: "a cluster that is not there to say so", Within: framework.Patience,
	}, isUnreachable)
}

// expectImported waits until a cluster that is there has its agent, and says how long that took.
func expectImported(ctx context.Context, black *hole, name string) {
	GinkgoHelper()
	before, began := black.asked(), time.Now()
	Expect(world.Import(ctx, name, nil)).To(Succeed())
	_, err := client.Until(ctx, client.Await{
		From: world.Hub.Fleet, Resource: client.Clusters, Namespace: framework.Workspace, Name: name,
		For: "its agent to be deployed", Within: framework.Patience,
	}, func(c *fleet.Cluster) bool {
		imported := fleet.GetCondition(c.Status.Conditions, fleet.ConditionImported)
		return imported != nil && imported.Status == corev1.ConditionTrue
	})
	Expect(err).NotTo(HaveOccurred())
	imported := time.Since(began)
	_, err = world.Joined(ctx, framework.Workspace, name, framework.Named(name))
	Expect(err).NotTo(HaveOccurred())
	joined, now := time.Since(began), black.asked()
	AddReportEntry(name, fmt.Sprintf("its agent was deployed after %.2f s and heard of after %.2f s; of %d clusters that were being asked, %d answered nothing meanwhile; at most %d were asked at once; %s",
		imported.Seconds(), joined.Seconds(), before.Open, now.Ended-before.Ended, now.Most, footprint(ctx)), ReportEntryVisibilityAlways)
}

// footprint is what the controllers need for it.
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
