package cli

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/cmd/cli/repair"
	"github.com/fleet-hub/fleet/internal/cmd/cli/takeover"
	"github.com/fleet-hub/fleet/internal/cmd/cli/unregister"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// clusterNamed returns a Cluster of the workspace.
func clusterNamed(ctx SpecContext, name string) *fleet.Cluster {
	GinkgoHelper()
	var cluster fleet.Cluster
	Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, name, &cluster)).To(Succeed())
	return &cluster
}

// isGone matches the error for an object that does not exist.
func isGone(err error) bool { return apierrors.IsNotFound(err) }

// loseAgent deletes the Deployment and the identity of the agent on a cluster.
func loseAgent(ctx SpecContext, cluster string) {
	GinkgoHelper()
	kube := world.On(cluster).Kube
	Expect(kube.AppsV1().Deployments(names.SystemNamespace).Delete(ctx, names.Agent, metav1.DeleteOptions{})).To(Succeed())
	Expect(kube.CoreV1().Secrets(names.SystemNamespace).Delete(ctx, names.Agent, metav1.DeleteOptions{})).To(Succeed())
}

// accountOf returns the name of the account that an import creates on a cluster.
func accountOf(ctx SpecContext, cluster string) string {
	GinkgoHelper()
	system, err := world.Hub.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return importaccount.New(nil, string(system.UID), framework.Workspace, cluster).Name
}

// workload is a Bundle with a ConfigMap for the clusters with a label.
const workload = `apiVersion: fleet.cattle.io/v1alpha1
kind: Bundle
metadata:
  name: still-here
  namespace: fleet-default
spec:
  defaultNamespace: still-here
  resources:
  - name: configmap.yaml
    content: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: still-here}
      data: {text: hello}
  targets:
  - clusterSelector: {matchLabels: {place: west}}
`

// Three stories share two clusters. The first two leave nothing on them.
var _ = Describe("Two clusters", Ordered, func() {
	leaves(framework.Workspace, west, north, west)

	Describe("An imported cluster", leavesAgain)
	Describe("A cluster that is replaced by another one", isReplaced)
	Describe("A join that something prevents", isPrevented)
})

func leavesAgain() {
	It("gets its agent back", func(ctx SpecContext) {
		imported := run(ctx, "", "import", west, "--cluster-context", west, "--label", "place=west")
		Expect(imported.code).To(Equal(exit.Done), imported.stderr)
		before := clusterNamed(ctx, west)
		loseAgent(ctx, west)
		shown := run(ctx, "", "repair", west, "--dry-run")
		Expect(shown.stdout).To(ContainSubstring("redeployAgentGeneration: 1\n"))
		repaired := run(ctx, "", "repair", west, "-o", "json")
		Expect(repaired.code).To(Equal(exit.Done), repaired.stderr)
		var result repair.Repaired
		Expect(json.Unmarshal([]byte(repaired.stdout), &result)).To(Succeed())
		Expect(result.LastSeen).NotTo(BeEmpty())
		after := clusterNamed(ctx, west)
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Spec.ClientID).To(Equal(before.Spec.ClientID))
		_, err := world.On(west).Kube.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("does not leave while it has workloads", func(ctx SpecContext) {
		Expect(apply(ctx, hub, workload)).To(Succeed())
		Eventually(func() error {
			_, err := world.On(west).Kube.CoreV1().ConfigMaps("still-here").Get(ctx, "still-here", metav1.GetOptions{})
			return err
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		refused := run(ctx, "", "unregister", west, "--cluster-context", west)
		Expect(refused.code).To(Equal(exit.Refused))
		Expect(refused.stderr).To(And(ContainSubstring("Cluster fleet-default/west has 1 workload: fleet-default/still-here\n"), ContainSubstring("--keep-workloads")))
		refused = run(ctx, "", "unregister", west, "--keep-workloads", "--cluster-context", hub)
		Expect(refused.code).To(Equal(exit.Refused))
		Expect(refused.stderr).To(ContainSubstring("reason: TargetIsHub"))
		Expect(clusterNamed(ctx, west).DeletionTimestamp).To(BeNil())
	})

	It("leaves the hub, and then its agent is removed", func(ctx SpecContext) {
		shown := run(ctx, "", "unregister", west, "--keep-workloads", "--cluster-context", west, "--dry-run", "-o", "json")
		Expect(shown.code).To(Equal(exit.Done), shown.stderr)
		var planned unregister.Unregistered
		Expect(json.Unmarshal([]byte(shown.stdout), &planned)).To(Succeed())
		Expect(planned.Changes).To(HaveEach(HaveField("Result", "planned")))
		Expect(planned.Workloads).To(HaveValue(Equal(1)))

		left := run(ctx, "", "unregister", west, "--keep-workloads")
		Expect(left.code).To(Equal(exit.Done), left.stderr)
		Expect(left.stdout).To(ContainSubstring("unregister west -n fleet-default --cluster-context CONTEXT"))
		_, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, "west-kubeconfig", metav1.GetOptions{})
		Expect(err).To(Satisfy(isGone))

		again := run(ctx, "", "unregister", west, "--cluster-context", west)
		Expect(again.code).To(Equal(exit.Done), again.stderr)
		Expect(world.AgentRemains(ctx, west)).To(BeEmpty())
		kept, err := world.On(west).Kube.CoreV1().ConfigMaps("still-here").Get(ctx, "still-here", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(kept.Data).To(HaveKeyWithValue("text", "hello"))

		Expect(run(ctx, "", "unregister", west, "--cluster-context", west).code).To(Equal(exit.Failed), "nothing is left")
	})
}

func isReplaced() {
	var request string

	It("is registered", func(ctx SpecContext) {
		joined := run(ctx, "", "join", "--hub-context", hub, "--context", north)
		Expect(joined.code).To(Equal(exit.Done), joined.stderr)
	})

	It("keeps its place until the other one is confirmed", func(ctx SpecContext) {
		before := clusterNamed(ctx, north)
		text := run(ctx, "", "repair", north)
		Expect(text.code).To(Equal(exit.Done), text.stderr)
		Expect(text.stderr).To(MatchRegexp(`waits \(TakeoverPending\) until you run: fleet --kubeconfig \S+ confirm-takeover north REQUEST`))
		joined := make(chan answer, 1)
		go func() {
			defer GinkgoRecover()
			defer close(joined)
			joined <- run(ctx, joinText(text.stdout), "join", "--context", west)
		}()
		Eventually(func(g Gomega) {
			var requests fleet.ClusterRegistrationList
			g.Expect(world.Hub.List(ctx, client.ClusterRegistrations, framework.Workspace, &requests)).To(Succeed())
			request = ""
			for _, r := range requests.Items {
				granted := conditions.Get(r.Status.Conditions, conditions.Granted)
				if r.Status.ClusterName == north && granted != nil && granted.Reason == conditions.ReasonTakeoverPending {
					request = r.Name
				}
			}
			g.Expect(request).NotTo(BeEmpty())
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())

		refused := run(ctx, "", "confirm-takeover", north, "no-such")
		Expect(refused.code).To(Equal(exit.Failed))
		Expect(refused.stderr).To(MatchRegexp(`fix: fleet --kubeconfig \S+ confirm-takeover north ` + request + ` -n fleet-default\n`))
		shown := run(ctx, "", "confirm-takeover", north, request, "--dry-run")
		Expect(shown.code).To(Equal(exit.Done), shown.stderr)
		Expect(shown.stderr).To(MatchRegexp(`(?s)client ID: +` + before.Spec.ClientID + `.*token: +north-repair.*pod: +fleet-agent-.*Earlier agent: +it works until`))
		confirmed := run(ctx, "", "confirm-takeover", north, request, "-o", "json")
		Expect(confirmed.code).To(Equal(exit.Done), confirmed.stderr)
		var result takeover.Takeover
		Expect(json.Unmarshal([]byte(confirmed.stdout), &result)).To(Succeed())
		Expect(result.Granted).To(BeTrue())
		Expect(run(ctx, "", "confirm-takeover", north, request).stdout).To(ContainSubstring("had been granted already"))

		var other answer
		Eventually(joined).WithContext(ctx).WithTimeout(framework.Patience).Should(Receive(&other))
		Expect(other.code).To(Equal(exit.Done), other.stderr)
		Expect(other.stdout).To(HavePrefix("joined as Cluster fleet-default/north"))
		Expect(clusterNamed(ctx, north).UID).To(Equal(before.UID))
	})

	It("comes back with the same token without a confirmation", func(ctx SpecContext) {
		loseAgent(ctx, west)
		text := run(ctx, "", "repair", north)
		Expect(text.stderr).To(ContainSubstring("the hub grants its request at once"))
		joined := run(ctx, joinText(text.stdout), "join", "--context", west)
		Expect(joined.code).To(Equal(exit.Done), joined.stderr)
	})

	It("leaves with both agents", func(ctx SpecContext) {
		left := run(ctx, "", "unregister", north, "--cluster-context", west)
		Expect(left.code).To(Equal(exit.Done), left.stderr)
		Expect(left.stdout).To(And(ContainSubstring("deleted on hub: Cluster fleet-default/north\n"), ContainSubstring("deleted on west: HelmRelease cattle-fleet-system/fleet-agent\n"),
			ContainSubstring("deleted on hub: ClusterRegistrationToken fleet-default/north-repair\n"), ContainSubstring("deleted on west: Namespace cattle-fleet-system\n")))
		Expect(world.AgentRemains(ctx, west)).To(BeEmpty())
		again := run(ctx, "", "unregister", north, "--cluster-context", north)
		Expect(again.code).To(Equal(exit.Done), again.stderr)
		Expect(world.AgentRemains(ctx, north)).To(BeEmpty())
		Expect(strings.Count(again.stdout, "on hub")).To(BeZero())
	})
}
