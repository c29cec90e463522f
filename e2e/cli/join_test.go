package cli

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("A cluster joins", Ordered, func() {
	leaves(framework.Workspace, west, west)

	var text string

	It("after checks that write nothing", func(ctx SpecContext) {
		text = joinText(run(ctx, "", "token", "create", west, "--cluster", west, "--label", "env=prod", "--ttl", "1h").stdout)
		shown := run(ctx, text, "join", "--context", west, "--dry-run")
		Expect(shown.code).To(Equal(exit.Done), shown.stderr)
		Expect(shown.stdout).To(ContainSubstring("kind: Deployment"))
		_, err := world.On(west).Kube.CoreV1().Namespaces().Get(ctx, names.SystemNamespace, metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})

	It("with one paste", func(ctx SpecContext) {
		start := time.Now()
		joined := run(ctx, text, "join", "--context", west)
		GinkgoWriter.Printf("joined within %s\n", time.Since(start))
		Expect(joined.code).To(Equal(exit.Done), joined.stderr)
		Expect(joined.stdout).To(Equal("joined as Cluster fleet-default/west of " + world.Plane.Hub.URL + "\n"))
		for _, phase := range []string{"1/5 read", "2/5 check the hub", "3/5 check the cluster", "4/5 install", "5/5 wait"} {
			Expect(joined.stderr).To(ContainSubstring(phase))
		}
		var cluster fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, west, &cluster)).To(Succeed())
		Expect(cluster.Status.Agent.LastSeen.IsZero()).To(BeFalse())
		Expect(cluster.Labels).To(HaveKeyWithValue("env", "prod"))
		Expect(run(ctx, "", "token", "show", west).stdout).To(MatchRegexp(`west +Ready +\d+m +west +west`))
	})

	It("only once", func(ctx SpecContext) {
		again := run(ctx, text, "join", "--context", west)
		Expect(again.code).To(Equal(exit.Done), again.stderr)
		Expect(again.stdout).To(HavePrefix("has joined already as Cluster fleet-default/west"))
	})

	It("again with another value, which its agent gets", func(ctx SpecContext) {
		arguments := []string{"join", "--context", west, "--set", "fleetAgent.nodeSelector.disk=fast"}
		changed := run(ctx, text, arguments...)
		Expect(changed.code).To(Equal(exit.Done), changed.stderr)
		Expect(changed.stdout).To(HavePrefix("joined as Cluster fleet-default/west"))
		agent, err := world.On(west).Kube.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(agent.Spec.Template.Spec.NodeSelector).To(HaveKeyWithValue("disk", "fast"))
		Expect(run(ctx, text, arguments...).stdout).To(HavePrefix("has joined already"))
	})

	It("again after its namespace was deleted", func(ctx SpecContext) {
		kube := world.On(west).Kube
		role := names.SafeConcat(names.SystemNamespace, names.Agent, "role")
		Eventually(func(g Gomega) { // the agent has taken over its objects
			found, err := kube.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.Annotations).To(HaveKeyWithValue("meta.helm.sh/release-name", names.AgentBundle(west)))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		Expect(kube.CoreV1().Namespaces().Delete(ctx, names.SystemNamespace, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() bool {
			_, err := kube.CoreV1().Namespaces().Get(ctx, names.SystemNamespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(BeTrue())
		again := run(ctx, text, "join", "--context", west)
		Expect(again.code).To(Equal(exit.Done), again.stderr)
		Expect(again.stdout).To(HavePrefix("joined as Cluster fleet-default/west"))
	})

	It("not as another one", func(ctx SpecContext) {
		other := joinText(run(ctx, "", "token", "create", "other", "--cluster", "other").stdout)
		refused := run(ctx, other, "join", "--context", west)
		Expect(refused.code).To(Equal(exit.Refused))
		Expect(refused.stderr).To(ContainSubstring("this cluster has joined as Cluster fleet-default/west"))
		Expect(run(ctx, other, "join", "--context", hub)).To(And(
			HaveField("Code()", exit.Refused), HaveField("Stderr()", ContainSubstring("this cluster is the hub itself"))))
	})

	It("not with a revoked token", func(ctx SpecContext) {
		other := joinText(run(ctx, "", "token", "show", "other", "--with-secret").stdout)
		Expect(run(ctx, "", "token", "revoke", "other").code).To(Equal(exit.Done))
		Eventually(func(g Gomega) {
			refused := run(ctx, other, "join", "--context", north, "--dry-run")
			g.Expect(refused.code).To(Equal(exit.Preflight))
			g.Expect(refused.stderr).To(ContainSubstring("reason: TokenRejected"))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed()) // until the garbage collector has deleted the account's rights
	})
})

var _ = Describe("Both sides at once", Ordered, func() {
	leaves(framework.Workspace, north, north)

	It("join with one command", func(ctx SpecContext) {
		joined := run(ctx, "", "join", "--hub-context", hub, "--context", north, "--label", "env=test")
		Expect(joined.code).To(Equal(exit.Done), joined.stderr)
		Expect(joined.stdout).To(ContainSubstring("fleet-default/north"))
	})

	It("are refused if they are the same", func(ctx SpecContext) {
		refused := run(ctx, "", "join", "--hub-context", hub, "--context", hub)
		Expect(refused.code).To(Equal(exit.Refused))
	})
})

var _ = Describe("A manifest", Ordered, func() {
	leaves(framework.Workspace, west, west)

	It("joins a cluster with kubectl apply", func(ctx SpecContext) {
		manifest := run(ctx, "", "token", "create", west, "--cluster", west, "--format", "manifest").stdout
		Expect(manifest).To(HavePrefix("apiVersion: v1\nkind: Namespace\n"))
		Expect(apply(ctx, west, manifest)).To(Succeed())
		_, err := world.Joined(ctx, framework.Workspace, west, framework.Named(west))
		Expect(err).NotTo(HaveOccurred())
		text := joinText(run(ctx, "", "token", "show", west, "--with-secret").stdout)
		again := run(ctx, text, "join", "--context", west)
		Expect(again.code).To(Equal(exit.Done), again.stderr)
		Expect(strings.Contains(again.stdout, "already")).To(BeTrue())
	})
})
