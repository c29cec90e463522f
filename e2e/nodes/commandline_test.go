//go:build linux

package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/e2e/framework/transcript"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// example is the Bundle of the story, and the namespace of its objects.
const example = "example-manifests"

// examples is the folder of the examples. It is absolute, because steps change the working directory.
var examples, _ = filepath.Abs(filepath.Join("..", "..", "examples"))

// fleetCommand runs the command line with this standard input.
func fleetCommand(ctx SpecContext, stdin string, args ...string) commandline.Answer {
	GinkgoHelper()
	answer, err := commandline.Run(ctx, world.User, stdin, args...)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

// applyExample applies a copy of examples/manifests for the clusters with this label env. It has an image that the nodes have.
func applyExample(ctx SpecContext, env string) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	Expect(os.CopyFS(folder, os.DirFS(examples))).To(Succeed())
	for file, change := range map[string][2]string{
		"fleet.yaml": {"clusterSelector: {}", "clusterSelector: {matchLabels: {env: " + env + "}}"},
		"web.yaml":   {"docker.io/library/nginx:1.29", nodes.PauseImage},
	} {
		path := filepath.Join(folder, "manifests", file)
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(change[0]))
		Expect(os.WriteFile(path, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600)).To(Succeed())
	}
	GinkgoT().Chdir(folder)
	applied := fleetCommand(ctx, "", "apply", "-n", framework.Workspace, "example", "manifests")
	Expect(applied.Code).To(Equal(exit.Done), applied.Stderr)
}

func typing() {
	var text string

	It("creates a token, which prints the command for the other cluster", func(ctx SpecContext) {
		created := fleetCommand(ctx, "", "token", "create", south, "--cluster", south, "--label", "env="+south, "--ttl", "1h")
		Expect(created.Code).To(Equal(exit.Done), created.Stderr)
		var err error
		text, err = transcript.JoinText(created.Stdout)
		Expect(err).NotTo(HaveOccurred())
	})

	It("joins it with one paste", func(ctx SpecContext) {
		// The same settings as on the hub: otherwise the agent's Bundle would replace the pod.
		joined := fleetCommand(ctx, text, "join", "--context", south, "--set", "agentCheckinInterval="+checkin)
		Expect(joined.Code).To(Equal(exit.Done), joined.Stderr)
		Expect(joined.Stdout).To(HavePrefix("joined as Cluster fleet-default/south of "))
		again := fleetCommand(ctx, text, "join", "--context", south)
		Expect(again.Code).To(Equal(exit.Done), again.Stderr)
		Expect(again.Stdout).To(HavePrefix("has joined already as Cluster fleet-default/south of "))
		var cluster fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, south, &cluster)).To(Succeed())
		southern = &cluster
	})

	It("keeps the same pod when the agent's Bundle takes over", func(ctx SpecContext) {
		_, deployment, err := world.Managed(ctx, south, southern)
		Expect(err).NotTo(HaveOccurred())
		Expect(deployment.Annotations).To(HaveKeyWithValue(framework.RevisionAnnotation, "1"))
		runs(ctx, south, names.SystemNamespace, names.Agent, 1)
	})

	It("delivers a folder, and writes nothing when applied again", func(ctx SpecContext) {
		applyExample(ctx, south)
		runs(ctx, south, example, "web", 1)
		var first, second fleet.Bundle
		Expect(world.Hub.Get(ctx, client.Bundles, framework.Workspace, example, &first)).To(Succeed())
		applyExample(ctx, south)
		Expect(world.Hub.Get(ctx, client.Bundles, framework.Workspace, example, &second)).To(Succeed())
		Expect(second.Generation).To(Equal(first.Generation))
	})
}

func inspecting() {
	It("lists which clusters report, and which one does not", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			listed := fleetCommand(ctx, "", "clusters", "-A")
			g.Expect(listed.Code).To(Equal(exit.Done), listed.Stderr)
			g.Expect(listed.Stdout).To(MatchRegexp(`(?m)^fleet-default +south +Ready +- .* 2/2 *$`))
			g.Expect(listed.Stdout).To(MatchRegexp(`(?m)^fleet-default +east +Silent `))
			g.Expect(listed.Stdout).To(MatchRegexp(`(?m)^fleet-local +local +Ready `))
		}).WithContext(ctx).WithTimeout(patience).WithPolling(time.Second).Should(Succeed())
	})

	It("gets the same result from fleet doctor, which exits with an error", func(ctx SpecContext) {
		checked := fleetCommand(ctx, "", "doctor", "-A")
		Expect(checked.Code).To(Equal(exit.Failed), checked.Stderr)
		Expect(checked.Stdout).To(MatchRegexp(`(?m)^failed +hub-clusters-silent +Cluster fleet-default/(.*, )?east `))
		Expect(checked.Stdout).NotTo(ContainSubstring(south), "nothing is wrong with it")
		agent := fleetCommand(ctx, "", "doctor", "agent", "--context", south, "--fail-on", "warning")
		Expect(agent.Code).To(Equal(exit.Done), agent.Stdout)
	})
}

func unregistering() {
	It("is refused while something is deployed", func(ctx SpecContext) {
		refused := fleetCommand(ctx, "", "unregister", south, "--cluster-context", south)
		Expect(refused.Code).To(Equal(exit.Refused), refused.Stdout)
		Expect(refused.Stderr).To(ContainSubstring(example))
		runs(ctx, south, names.SystemNamespace, names.Agent, 1)
	})

	It("leaves nothing on the cluster after its Bundles were removed from it", func(ctx SpecContext) {
		applyExample(ctx, "nowhere")
		Eventually(func(g Gomega) {
			unregistered := fleetCommand(ctx, "", "unregister", south, "--cluster-context", south)
			g.Expect(unregistered.Code).To(Equal(exit.Done), unregistered.Stderr)
		}).WithContext(ctx).WithTimeout(patience).WithPolling(time.Second).Should(Succeed())
		Expect(fleetCommand(ctx, "", "clusters", "-o", "name").Stdout).NotTo(ContainSubstring(south))
		Eventually(func() []string {
			return more(ctx, south, func(o inventory.Object) bool {
				return o.Resource == "namespaces" && o.Name == example // Bundles leave their namespaces
			})
		}).WithContext(ctx).WithTimeout(patience).WithPolling(time.Second).Should(BeEmpty())
	})
}
