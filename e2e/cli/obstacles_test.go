package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// viewer returns a kubeconfig with the token of an account that may only read.
func viewer(ctx SpecContext, cluster string) string {
	GinkgoHelper()
	core := world.On(cluster).Kube
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "viewer"}}
	_, err := core.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = core.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	request, err := core.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	all, err := clientcmd.Load(kubeconfigOf(cluster))
	Expect(err).NotTo(HaveOccurred())
	user := all.AuthInfos[all.Contexts[all.CurrentContext].AuthInfo]
	user.Token = request.Status.Token
	path := filepath.Join(GinkgoT().TempDir(), "viewer")
	Expect(clientcmd.WriteToFile(*all, path)).To(Succeed())
	return path
}

// secure sets the pod security level of the agent's namespace.
func secure(ctx SpecContext, cluster, level string) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level)
	_, err := world.On(cluster).Kube.CoreV1().Namespaces().Patch(ctx, names.SystemNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func isPrevented() {
	var text string

	It("names all rights that are missing, and writes nothing", func(ctx SpecContext) {
		text = joinText(run(ctx, "", "token", "create", west, "--cluster", west).stdout)
		kubeconfig := viewer(ctx, west)
		refused := run(ctx, text, "join", "--kubeconfig", kubeconfig)
		Expect(refused.code).To(Equal(exit.Preflight))
		Expect(refused.stdout).To(BeEmpty())
		for _, right := range []string{
			"create namespaces", "create secrets in namespace cattle-fleet-system", "create deployments.apps in namespace cattle-fleet-system",
			"create clusterrolebindings.rbac.authorization.k8s.io", "escalate clusterroles.rbac.authorization.k8s.io",
		} {
			Expect(refused.stderr).To(ContainSubstring("error: phase 3, check the cluster: you do not have the right to " + right + " on this cluster\n"))
		}
		Expect(refused.stderr).NotTo(ContainSubstring("list deployments"), "that right is there")
		Expect(refused.stderr).To(HaveSuffix("fix: use the --context of an administrator (ClusterRole cluster-admin): kubectl --kubeconfig " + kubeconfig + " auth whoami\n"))
		_, err := world.On(west).Kube.CoreV1().Namespaces().Get(ctx, names.SystemNamespace, metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})

	It("finds a quota without room for the agent", func(ctx SpecContext) {
		core := world.On(west).Kube.CoreV1()
		_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.SystemNamespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: "no-pods"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		_, err = core.ResourceQuotas(quota.Namespace).Create(ctx, quota, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) { // the controller-manager puts a quota into effect
			refused := run(ctx, text, "join", "--context", west, "--dry-run")
			g.Expect(refused.code).To(Equal(exit.Preflight), refused.stderr)
			g.Expect(refused.stderr).To(And(ContainSubstring("exceeded quota: no-pods"), ContainSubstring("reason: AgentPodRejected (docs/conditions.md)\n")))
		}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
		refused := run(ctx, text, "join", "--context", west)
		Expect(refused.code).To(Equal(exit.Preflight))
		Expect(refused.stderr).To(ContainSubstring("phase 3, check the cluster: namespace cattle-fleet-system does not admit the agent's pod: "))
		Expect(refused.stderr).To(HaveSuffix(" --context west describe namespace cattle-fleet-system\n"))
		Expect(core.ResourceQuotas(quota.Namespace).Delete(ctx, quota.Name, metav1.DeleteOptions{})).To(Succeed())
	})

	It("finds pod security that forbids the agent", func(ctx SpecContext) {
		secure(ctx, west, "restricted")
		refused := run(ctx, text, "join", "--context", west)
		Expect(refused.code).To(Equal(exit.Preflight))
		Expect(refused.stderr).To(And(ContainSubstring(`violates PodSecurity "restricted:latest"`), ContainSubstring("reason: AgentPodRejected (docs/conditions.md)\n")))
		deployments, err := world.On(west).Kube.AppsV1().Deployments(names.SystemNamespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(deployments.Items).To(BeEmpty())
	})

	It("finds the agent of another namespace", func(ctx SpecContext) {
		secure(ctx, west, "privileged")
		Expect(apply(ctx, west, "{apiVersion: v1, kind: Namespace, metadata: {name: other}}")).To(Succeed())
		Expect(apply(ctx, west, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: other, name: fleet-agent}, spec: {replicas: 0, selector: {matchLabels: {app: fleet-agent}},
			template: {metadata: {labels: {app: fleet-agent}}, spec: {containers: [{name: agent, image: rancher/fleet-agent}]}}}}`)).To(Succeed())
		refused := run(ctx, text, "join", "--context", west)
		Expect(refused.code).To(Equal(exit.Refused))
		Expect(refused.stderr).To(ContainSubstring("phase 3, check the cluster: another agent runs on this cluster: Deployment other/fleet-agent\n"))
		Expect(world.On(west).Kube.AppsV1().Deployments("other").Delete(ctx, names.Agent, metav1.DeleteOptions{})).To(Succeed())
	})

	It("succeeds once nothing prevents it", func(ctx SpecContext) {
		joined := run(ctx, text, "join", "--context", west)
		Expect(joined.code).To(Equal(exit.Done), joined.stderr)
	})

	It("waits for a takeover if another cluster uses the client ID, and names the command that confirms it", func(ctx SpecContext) {
		created := run(ctx, "", "token", "create", "second", "--cluster", west)
		Expect(created.stderr).To(ContainSubstring("warning: Cluster fleet-default/west has an agent already"))
		late := runUntimely(ctx, "the hub did not grant its registration within", joinText(created.stdout), "join", "--context", north)
		Expect(late.code).To(Equal(exit.Timeout))
		Expect(late.stderr).To(MatchRegexp(`phase 5, wait for the first heartbeat: the agent runs, and the hub did not grant its registration within \S+\n`))
		Expect(late.stderr).To(ContainSubstring("fix: if its reason is TakeoverPending, run join again, and while it waits, on the hub: fleet confirm-takeover CLUSTER REQUEST -n fleet-default\n"))
		Expect(late.stderr).To(ContainSubstring("removed what was created"))
		_, err := world.On(north).Kube.CoreV1().Namespaces().Get(ctx, names.SystemNamespace, metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})

	It("does not replace that agent with its own token", func(ctx SpecContext) {
		refused := run(ctx, "", "join", "--hub-context", hub, "--context", north, "--cluster", west)
		Expect(refused.code).To(Equal(exit.Refused))
		Expect(refused.stderr).To(ContainSubstring("phase 3, check the cluster: Cluster fleet-default/west has an agent on another cluster, which reports"))
		Expect(refused.stderr).To(MatchRegexp(`fix: to replace that agent: fleet --kubeconfig \S+ --context ` + hub + ` token revoke west -n fleet-default, and run the command again`))
		Expect(run(ctx, "", "token", "revoke", west).code).To(Equal(exit.Done))
	})

	It("prints the command that confirms it, while it waits with access to the hub", func(ctx SpecContext) {
		late := runUntimely(ctx, "the hub waits for the confirmation", "", "join", "--hub-context", hub, "--context", north, "--cluster", west)
		Expect(late.code).To(Equal(exit.Timeout))
		Expect(late.stderr).To(MatchRegexp(`(?m)^the hub waits for the confirmation .*: fleet --kubeconfig \S+ --context ` + hub + ` confirm-takeover west request-\w+ -n fleet-default$`))
		Expect(late.stderr).To(MatchRegexp(`phase 5, .*: ClusterRegistration fleet-default/request-\w+: another agent is registered for this Cluster`))
		Expect(late.stderr).To(ContainSubstring("reason: TakeoverPending (docs/conditions.md)\n"))
		Expect(late.stderr).To(MatchRegexp(`run the command that it prints: fleet --kubeconfig \S+ --context ` + hub + ` confirm-takeover …\n$`))
		var cluster fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, west, &cluster)).To(Succeed())
		Expect(conditions.Get(cluster.Status.Conditions, conditions.AgentReporting)).To(HaveValue(HaveField("Status", corev1.ConditionTrue)), "the first agent stays")
	})

	It("replaces that agent after the confirmation", func(ctx SpecContext) {
		kept := runUntimely(ctx, "confirm-takeover west request-", "", "join", "--hub-context", hub, "--context", north, "--cluster", west, "--keep")
		Expect(kept.code).To(Equal(exit.Timeout))
		confirm := regexp.MustCompile(`fix: (fleet .* confirm-takeover west request-\w+ -n fleet-default)\n`).FindStringSubmatch(kept.stderr)
		Expect(confirm).To(HaveLen(2), kept.stderr)
		printed(ctx, confirm[1])
		joined := run(ctx, "", "join", "--hub-context", hub, "--context", north, "--cluster", west)
		Expect(joined.code).To(Equal(exit.Done), joined.stderr)
		Expect(joined.stdout).To(ContainSubstring("as Cluster fleet-default/west of "))
	})
}

// runUntimely runs a command that ends with a timeout. On a busy machine it gets more time, until its output contains reached.
func runUntimely(ctx SpecContext, reached, stdin string, args ...string) (got answer) {
	for _, timeout := range []string{"3s", "15s", "1m"} {
		if got = run(ctx, stdin, append(slices.Clone(args), "--timeout", timeout)...); strings.Contains(got.stderr, reached) {
			break
		}
	}
	return got
}
