package examples

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// repository is the address in examples/chart-from-repository. The story serves the repository at another one.
const repository = "http://127.0.0.1:8879"

// run runs a command that succeeds.
func run(ctx SpecContext, args ...string) {
	GinkgoHelper()
	answer, err := commandline.Run(ctx, world.User, "", args...)
	Expect(err).NotTo(HaveOccurred())
	Expect(answer.Code).To(Equal(exit.Done), answer.Stderr)
}

// prepare copies the examples, serves the chart repository, and makes the copy the working directory.
func prepare() {
	GinkgoHelper()
	folder, charts := GinkgoT().TempDir(), GinkgoT().TempDir()
	Expect(os.CopyFS(folder, os.DirFS(filepath.Join("..", "..", "examples")))).To(Succeed())
	Expect(helm.WriteRepository(filepath.Join(folder, "chart"), charts)).To(Succeed())
	server := httptest.NewServer(http.FileServer(http.Dir(charts)))
	DeferCleanup(server.Close)

	path := filepath.Join(folder, "chart-from-repository", "fleet.yaml")
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(text)).To(ContainSubstring(repository))
	Expect(os.WriteFile(path, []byte(strings.ReplaceAll(string(text), repository, server.URL)), 0o600)).To(Succeed())
	GinkgoT().Chdir(folder)
}

// commands returns the arguments of the commands that examples/README.md lists first.
func commands() (all [][]string) {
	GinkgoHelper()
	text, err := os.ReadFile("README.md")
	Expect(err).NotTo(HaveOccurred())
	for _, line := range regexp.MustCompile(`(?m)^fleet (apply .*)$`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.Fields(line[1]))
	}
	return all
}

var _ = Describe("The examples", Ordered, func() {
	bundles := []string{"example-manifests", "example-chart", "example-kustomize", "example-chart-from-repository", "example-per-cluster"}

	BeforeAll(prepare)

	It("need clusters", func(ctx SpecContext) {
		run(ctx, "join", "--hub-context", framework.HubName, "--context", east, "--label", "env=dev")
		run(ctx, "join", "--hub-context", framework.HubName, "--context", west, "--label", "env=prod")
	})

	It("are applied with the commands of their README", func(ctx SpecContext) {
		listed := commands()
		Expect(listed).To(HaveLen(len(bundles)))
		for _, command := range listed {
			run(ctx, command...)
		}
		var made fleet.BundleList
		Expect(world.Hub.List(ctx, client.Bundles, framework.Workspace, &made)).To(Succeed())
		for _, name := range bundles {
			Expect(made.Items).To(ContainElement(HaveField("Name", name)))
		}
	})

	for _, name := range bundles {
		It("are ready on two clusters: "+name, func(ctx SpecContext) {
			bundle, err := client.Until(ctx, client.Await{
				From: world.Hub.Fleet, Resource: client.Bundles, Namespace: framework.Workspace, Name: name, For: "two ready clusters", Within: framework.Patience,
			}, func(b *fleet.Bundle) bool { return b.Status.Summary.Ready == 2 && b.Status.Summary.DesiredReady == 2 })
			Expect(err).NotTo(HaveOccurred())
			AddReportEntry("ready clusters", bundle.Status.Display.ReadyClusters)
		})
	}

	It("are the clusters' only Bundles, besides those of the agents", func(ctx SpecContext) {
		for _, name := range []string{east, west} {
			cluster, err := world.Joined(ctx, framework.Workspace, name, framework.Named(name))
			Expect(err).NotTo(HaveOccurred())
			_, err = world.Ready(ctx, cluster, len(bundles))
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(func(g Gomega) {
			answer, err := commandline.Run(ctx, world.User, "", "clusters")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Stdout).To(And(MatchRegexp(`east +Ready `), MatchRegexp(`west +Ready `)))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("deliver manifests", func(ctx SpecContext) {
		for _, cluster := range []string{east, west} {
			Expect(data(ctx, cluster, "example-manifests", "settings")).To(HaveKeyWithValue("color", "green"))
			Expect(deployment(ctx, cluster, "example-manifests", "web").Status.AvailableReplicas).To(BeEquivalentTo(1))
			_, err := world.On(cluster).Kube.CoreV1().Services("example-manifests").Get(ctx, "web", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("deliver charts with the names of their clusters", func(ctx SpecContext) {
		for _, cluster := range []string{east, west} {
			Expect(data(ctx, cluster, "example-chart", "greeting")).To(HaveKeyWithValue("text", "Hello, "+cluster))
			Expect(data(ctx, cluster, "example-chart-from-repository", "greeting")).To(HaveKeyWithValue("text", "Welcome, "+cluster))
		}
	})

	It("deliver the overlay of each stage", func(ctx SpecContext) {
		Expect(data(ctx, east, "example-kustomize", "limits")).To(Equal(map[string]string{"requests": "10", "timeout": "30s"}))
		Expect(data(ctx, west, "example-kustomize", "limits")).To(Equal(map[string]string{"requests": "1000", "timeout": "30s"}))
	})

	It("deliver different values to each cluster", func(ctx SpecContext) {
		Expect(data(ctx, east, "example-per-cluster", "shop")).To(Equal(map[string]string{"stage": "dev", "cluster": east}))
		Expect(data(ctx, west, "example-per-cluster", "shop")).To(Equal(map[string]string{"stage": "prod", "cluster": west}))
		Expect(*deployment(ctx, east, "example-per-cluster", "shop").Spec.Replicas).To(BeEquivalentTo(1))
		Expect(*deployment(ctx, west, "example-per-cluster", "shop").Spec.Replicas).To(BeEquivalentTo(3))
	})
})

// data returns the content of a ConfigMap on a cluster.
func data(ctx SpecContext, cluster, namespace, name string) map[string]string {
	GinkgoHelper()
	found, err := world.On(cluster).Kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return found.Data
}

func deployment(ctx SpecContext, cluster, namespace, name string) *appsv1.Deployment {
	GinkgoHelper()
	found, err := world.On(cluster).Kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return found
}
