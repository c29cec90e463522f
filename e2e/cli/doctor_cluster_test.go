package cli

import (
	"net/http"
	"net/http/httptest"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

var _ = Describe("The doctor of a cluster", Ordered, func() {
	leaves(framework.Workspace, west, west)

	const (
		secret     = "Secret cattle-fleet-system/fleet-agent"
		deployment = "Deployment cattle-fleet-system/fleet-agent"
		role       = "cattle-fleet-system-fleet-agent-role"
	)
	both := []string{"cluster", west, "--cluster-context", west}
	onCluster := []string{"agent", "--context", west}
	create := func(ctx SpecContext, document string) {
		GinkgoHelper()
		Expect(apply(ctx, west, document)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		text := joinText(run(ctx, "", "token", "create", west, "--cluster", west, "--ttl", "1h").stdout)
		Expect(run(ctx, text, "join", "--context", west).code).To(Equal(exit.Done))
	})

	It("finds nothing on a healthy cluster", func(ctx SpecContext) {
		for _, args := range [][]string{both, onCluster} {
			Eventually(func(g Gomega) {
				answer := run(ctx, "", slices.Concat([]string{"doctor"}, args, []string{"--fail-on", "warning"})...)
				g.Expect(answer.code).To(Equal(exit.Done), answer.stdout+answer.stderr)
				g.Expect(answer.stdout).To(MatchRegexp(`^\d+ checks: \d+ ok, 0 warnings, 0 failed\n$`))
			}).WithTimeout(framework.Patience).Should(Succeed())
		}
	})

	It("finds a second agent, and deletes it", func(ctx SpecContext) {
		create(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: second}\n")
		create(ctx, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: second, name: fleet-agent}, spec: {selector: {matchLabels: {app: second}},
			template: {metadata: {labels: {app: second}}, spec: {nodeSelector: {missing: "true"}, containers: [{name: agent, image: rancher/fleet-agent}]}}}}`)
		heals(ctx, "agent-others", "Deployment second/fleet-agent", "^kubectl .*delete deployment -n second fleet-agent$", onCluster...)
	})

	It("finds a Helm operation that was interrupted, and removes its record", func(ctx SpecContext) {
		create(ctx, `{apiVersion: v1, kind: Secret, type: helm.sh/release.v1, metadata: {namespace: cattle-fleet-system, name: sh.helm.release.v1.fleet-agent.v99,
			labels: {owner: helm, name: fleet-agent, status: pending-upgrade, version: "99", modifiedAt: "1700000000"}}}`)
		heals(ctx, "agent-releases-pending", "Secret cattle-fleet-system/sh.helm.release.v1.fleet-agent.v99",
			`^kubectl .*delete secret -n cattle-fleet-system sh.helm.release.v1.fleet-agent.v99$`, onCluster...)
	})

	It("finds that the agent has lost its rights, and binds its role again", func(ctx SpecContext) {
		Expect(world.On(west).Kube.RbacV1().ClusterRoleBindings().Delete(ctx, role+"-binding", metav1.DeleteOptions{})).To(Succeed())
		heals(ctx, "agent-rights", "ClusterRoleBinding "+role+"-binding", "^kubectl .*create clusterrolebinding", onCluster...)
	})

	It("finds that the agent's role is missing, and creates it again", func(ctx SpecContext) {
		Expect(world.On(west).Kube.RbacV1().ClusterRoles().Delete(ctx, role, metav1.DeleteOptions{})).To(Succeed())
		heals(ctx, "agent-rights", "ClusterRole "+role, "^kubectl .*create clusterrole ", onCluster...)
	})

	It("finds that the agent's account is missing, and creates it again", func(ctx SpecContext) {
		Expect(world.On(west).Kube.CoreV1().ServiceAccounts(names.SystemNamespace).Delete(ctx, names.Agent, metav1.DeleteOptions{})).To(Succeed())
		heals(ctx, "agent-account", "ServiceAccount cattle-fleet-system/fleet-agent", "^kubectl .*create serviceaccount .* rollout restart", onCluster...)
	})

	It("finds an agent that is scaled to 0, and starts it", func(ctx SpecContext) {
		patch(ctx, west, "deployments.apps", names.Agent, `{"spec":{"replicas":0}}`)
		heals(ctx, "agent-deployment", deployment, "^kubectl .*scale .*--replicas=1$", onCluster...)
	})

	It("finds a quota that is too small, and raises it", func(ctx SpecContext) {
		create(ctx, `{apiVersion: v1, kind: ResourceQuota, metadata: {namespace: cattle-fleet-system, name: small}, spec: {hard: {pods: "0"}}}`)
		Eventually(func(g Gomega) {
			quota, err := world.On(west).Kube.CoreV1().ResourceQuotas(names.SystemNamespace).Get(ctx, "small", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(quota.Status.Hard).NotTo(BeEmpty()) // only then it is enforced
		}).WithTimeout(framework.Patience).Should(Succeed())
		Expect(world.On(west).Kube.CoreV1().Pods(names.SystemNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=fleet-agent"})).To(Succeed())
		heals(ctx, "agent-pods-created", deployment, `^kubectl .*patch resourcequota -n cattle-fleet-system small`, onCluster...)
		passes(ctx, "agent-deployment", onCluster...)
	})

	It("finds another client ID, and gives the Cluster that of its agent", func(ctx SpecContext) {
		Expect(world.Hub.Patch(ctx, client.Clusters, framework.Workspace, west, []byte(`{"spec":{"clientID":"another"}}`))).To(Succeed())
		heals(ctx, "both-client-id", "Cluster fleet-default/west", "^kubectl .*patch clusters.fleet.cattle.io", both...)
	})

	It("finds an identity that was revoked on the hub, and registers the agent again", func(ctx SpecContext) {
		namespace := names.ClusterNamespace(framework.Workspace, west)
		Expect(world.Hub.Kube.CoreV1().ServiceAccounts(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "fleet.cattle.io/managed=true"})).To(Succeed())
		finds(ctx, "agent-hub-accepts", secret, onCluster...)
		heals(ctx, "both-account", secret, "^fleet .*join --hub-context .* --context west --cluster west -n fleet-default$", both...)
		passes(ctx, "agent-hub-accepts", both...)
		passes(ctx, "agent-hub-heartbeat", both...)
	})

	It("finds another CA in the agent's Secret, and gives the agent that of the hub", func(ctx SpecContext) {
		server := httptest.NewTLSServer(http.NotFoundHandler())
		server.Close()
		secrets := world.On(west).Kube.CoreV1().Secrets(names.SystemNamespace)
		identity, err := secrets.Get(ctx, names.Agent, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		cfg, err := clientcmd.Load(identity.Data[protocol.KubeconfigKey])
		Expect(err).NotTo(HaveOccurred())
		for _, cluster := range cfg.Clusters {
			cluster.CertificateAuthorityData = kubetest.CAOf(server)
		}
		identity.Data[protocol.KubeconfigKey], err = clientcmd.Write(*cfg)
		Expect(err).NotTo(HaveOccurred())
		_, err = secrets.Update(ctx, identity, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		finds(ctx, "agent-hub-certificate", secret, onCluster...)
		heals(ctx, "both-hub-ca", secret, `^fleet .*repair west .*--format values \| kubectl .*create secret generic .*fleet-agent-bootstrap`, both...)
		passes(ctx, "agent-hub-certificate", both...)
		passes(ctx, "agent-bootstrap", both...)
	})

	It("finds an invalid proxy, and removes it", func(ctx SpecContext) {
		agent, err := world.On(west).Kube.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		container := &agent.Spec.Template.Spec.Containers[0]
		container.Env = append(container.Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "ftp://proxy.example.com"})
		_, err = world.On(west).Kube.AppsV1().Deployments(names.SystemNamespace).Update(ctx, agent, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		heals(ctx, "agent-proxy", deployment, "^kubectl .*set env .*HTTPS_PROXY-$", onCluster...)
	})
})

// patch merges a patch into an object in the agent's namespace.
func patch(ctx SpecContext, cluster, resource, name, text string) {
	GinkgoHelper()
	(&kubectl{context: cluster, namespace: names.SystemNamespace}).merge(ctx, resource, name, text)
}
