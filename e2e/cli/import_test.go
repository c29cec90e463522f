package cli

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("A cluster is imported", Ordered, func() {
	leaves(framework.Workspace, west, west)

	It("not if it is the hub's own", func(ctx SpecContext) {
		refused := run(ctx, "", "import", "itself", "--cluster-context", hub)
		Expect(refused.code).To(Equal(exit.Refused))
		Expect(refused.stderr).To(ContainSubstring("reason: TargetIsHub"))
	})

	It("after checks that write nothing", func(ctx SpecContext) {
		refused := run(ctx, "", "import", west, "--cluster-context", west, "-n", "no-such-workspace")
		Expect(refused.code).To(Equal(exit.Preflight), refused.stderr)
		Expect(refused.stderr).To(HavePrefix("error: workspace no-such-workspace does not exist\n"), "nothing was created before")

		shown := run(ctx, "", "import", west, "--cluster-context", west, "--dry-run")
		Expect(shown.code).To(Equal(exit.Done), shown.stderr)
		Expect(shown.stdout).To(And(ContainSubstring("kind: ClusterRoleBinding"), ContainSubstring("kubeConfigSecret: west-kubeconfig")))
		var cluster fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, west, &cluster)).NotTo(Succeed())
	})

	It("with the token of a service account of its own", func(ctx SpecContext) {
		imported := run(ctx, "", "import", west, "--cluster-context", west, "--label", "env=prod")
		Expect(imported.code).To(Equal(exit.Done), imported.stderr)
		Expect(imported.stdout).To(Equal("imported as Cluster fleet-default/west\n"))
		secret, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, "west-kubeconfig", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		given, err := kubeconfigs.Safe(secret.Data["value"])
		Expect(err).NotTo(HaveOccurred())
		account, err := world.On(west).Kube.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, accountOf(ctx, west), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(given.BearerToken == string(account.Data["token"])).To(BeTrue())
		Expect(given.CertData).To(BeEmpty())
		Expect(imported.stdout + imported.stderr).NotTo(ContainSubstring(given.BearerToken))
	})

	It("only once", func(ctx SpecContext) {
		again := run(ctx, "", "import", west, "--cluster-context", west)
		Expect(again.code).To(Equal(exit.Done), again.stderr)
		Expect(again.stdout).To(HavePrefix("was imported already"))
	})
})
