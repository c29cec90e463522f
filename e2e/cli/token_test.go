package cli

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var _ = Describe("Tokens", Ordered, func() {
	It("are shown before they are written", func(ctx SpecContext) {
		shown := run(ctx, "", "token", "create", "planned", "--cluster", "planned", "--dry-run")
		Expect(shown.code).To(Equal(exit.Done))
		Expect(shown.stdout).To(And(ContainSubstring("kind: Cluster\n"), ContainSubstring("kind: ClusterRegistrationToken\n")))
		Expect(run(ctx, "", "token", "show", "planned").code).To(Equal(exit.Failed))
	})

	It("are created with their Cluster, and print the command to run there", func(ctx SpecContext) {
		created := run(ctx, "", "token", "create", "told", "--cluster", "told", "--label", "env=prod", "--ttl", "1h")
		Expect(created.code).To(Equal(exit.Done), created.stderr)
		Expect(created.stdout).To(HavePrefix("fleet join --context told <<'JOIN'\nfleet-join-v1:"))
		text, err := jointext.Parse([]byte(joinText(created.stdout)))
		Expect(err).NotTo(HaveOccurred())
		Expect(created.stdout).To(ContainSubstring("\n# hub CA " + text.Fingerprint() + ":"))

		var cluster fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, "told", &cluster)).To(Succeed())
		Expect(cluster.Labels).To(Equal(map[string]string{"env": "prod"}))
		Expect(text.ClientID).To(And(Equal(cluster.Spec.ClientID), HaveLen(32)))
		Expect(text.URL).To(Equal(world.Plane.Hub.URL))
		Expect(text.CA).To(Equal(string(world.Plane.Hub.CA)))
	})

	It("are not created twice", func(ctx SpecContext) {
		again := run(ctx, "", "token", "create", "told", "--cluster", "told")
		Expect(again.code).To(Equal(exit.Refused))
		Expect(again.stderr).To(MatchRegexp(`fix: fleet --kubeconfig \S+ token show told -n fleet-default --with-secret`))
	})

	It("are listed without secrets", func(ctx SpecContext) {
		listed := run(ctx, "", "token", "list", "-o", "json")
		var all token.Tokens
		Expect(json.Unmarshal([]byte(listed.stdout), &all)).To(Succeed())
		Expect(all.Items).To(ContainElement(And(HaveField("Name", "told"), HaveField("State", "Ready"), HaveField("Cluster", "told"), HaveField("Joined", BeEmpty()))))
		secret, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, "told", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		bearer := bearerOf(secret.Data["values"])
		for _, printed := range []string{listed.stdout, run(ctx, "", "token", "list", "-A").stdout, run(ctx, "", "token", "show", "told", "-o", "yaml").stdout} {
			Expect(strings.Contains(printed, bearer)).To(BeFalse())
		}
	})

	It("are shown with the same text again", func(ctx SpecContext) {
		first, second := run(ctx, "", "token", "show", "told", "--with-secret"), run(ctx, "", "token", "show", "told", "--with-secret")
		Expect(first).To(Equal(second))
		Expect(joinText(first.stdout)).NotTo(BeEmpty())
	})

	It("are revoked", func(ctx SpecContext) {
		Expect(run(ctx, "", "token", "revoke", "told").code).To(Equal(exit.Done))
		Expect(run(ctx, "", "token", "revoke", "told").code).To(Equal(exit.Failed))
	})

	It("need a workspace", func(ctx SpecContext) {
		created := run(ctx, "", "token", "create", "lost", "-n", "nowhere")
		Expect(created.code).To(Equal(exit.Preflight))
		Expect(created.stderr).To(MatchRegexp(`fix: kubectl --kubeconfig \S+ create namespace nowhere`))
	})

	It("need a hub", func(ctx SpecContext) {
		created := run(ctx, "", "token", "create", "lost", "--context", west)
		Expect(created.code).To(Equal(exit.Preflight))
		Expect(created.stderr).To(ContainSubstring("this cluster is not a hub"))
	})
})

// bearerOf returns the bearer token in a values document.
func bearerOf(values []byte) string {
	for line := range strings.SplitSeq(string(values), "\n") {
		if bearer, found := strings.CutPrefix(line, "token: "); found {
			return bearer
		}
	}
	Fail("no token in the values")
	return ""
}
