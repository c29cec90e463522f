package cli

import (
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// clinic is the workspace of the faults.
const clinic = "fleet-clinic"

// examine runs fleet doctor and returns the rows with problems.
func examine(ctx SpecContext, args ...string) []check.Row {
	GinkgoHelper()
	answer, err := commandline.Quiet(ctx, world.User, "", slices.Concat([]string{"doctor"}, args, []string{"-o", "json"})...)
	Expect(err).NotTo(HaveOccurred())
	Expect(answer.Code).To(BeElementOf(exit.Done, exit.Failed), answer.Stderr)
	var report check.Report
	Expect(json.Unmarshal([]byte(answer.Stdout), &report)).To(Succeed())
	return slices.DeleteFunc(report.Rows, func(row check.Row) bool { return row.Verdict == check.OK })
}

// finds waits until a check reports an object, and returns the row.
func finds(ctx SpecContext, id, object string, args ...string) (row check.Row) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		rows := examine(ctx, args...)
		at := slices.IndexFunc(rows, func(r check.Row) bool { return r.ID == id && r.Object != nil && r.Object.String() == object })
		g.Expect(at).To(BeNumerically(">=", 0), fmt.Sprintf("%s %s in %+v", id, object, rows))
		row = rows[at]
	}).WithTimeout(framework.Patience).Should(Succeed())
	return row
}

// passes waits until a check has no problem.
func passes(ctx SpecContext, id string, args ...string) {
	GinkgoHelper()
	Eventually(func() []check.Row {
		return slices.DeleteFunc(examine(ctx, args...), func(r check.Row) bool { return r.ID != id })
	}).WithTimeout(framework.Patience).Should(BeEmpty())
}

// heals finds a fault, runs the printed command, and waits until the check passes.
func heals(ctx SpecContext, id, object, fix string, args ...string) {
	GinkgoHelper()
	row := finds(ctx, id, object, args...)
	run(ctx, "", append([]string{"doctor"}, args...)...)
	Expect(row.Fix).To(MatchRegexp(fix))
	printed(ctx, row.Fix)
	passes(ctx, id, args...)
	run(ctx, "", append([]string{"doctor"}, args...)...)
}

var _ = Describe("The doctor of a hub", Ordered, func() {
	leaves(clinic, west, west)

	inClinic := []string{"hub", "-n", clinic}
	create := func(ctx SpecContext, document string) {
		GinkgoHelper()
		Expect(apply(ctx, hub, document)).To(Succeed())
	}
	meta := func(kind, name string) string {
		return fmt.Sprintf("apiVersion: fleet.cattle.io/v1alpha1\nkind: %s\nmetadata: {namespace: %s, name: %s}\n", kind, clinic, name)
	}

	BeforeAll(func(ctx SpecContext) {
		Expect(world.Hub.EnsureNamespace(ctx, clinic)).To(Succeed())
		Expect(world.Hub.EnsureNamespace(ctx, "clinic-secrets")).To(Succeed())
	})

	It("finds nothing on a healthy hub", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			answer := run(ctx, "", slices.Concat([]string{"doctor"}, inClinic, []string{"--fail-on", "warning"})...)
			g.Expect(answer.code).To(Equal(exit.Done), answer.stdout+answer.stderr)
			g.Expect(answer.stdout).To(MatchRegexp(`^\d+ checks: \d+ ok, 0 warnings, 0 failed\n$`))
		}).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("finds a token that never expires, and lets it expire", func(ctx SpecContext) {
		create(ctx, meta("ClusterRegistrationToken", "forever")+"spec: {ttl: \"0\"}\n")
		heals(ctx, "hub-tokens-expiry", "ClusterRegistrationToken fleet-clinic/forever", "^kubectl .*patch clusterregistrationtokens", inClinic...)
		var token fleet.ClusterRegistrationToken
		Expect(world.Hub.Get(ctx, client.Tokens, clinic, "forever", &token)).To(Succeed())
		Expect(token.Spec.TTL.Duration).To(BeNumerically(">", 0))
	})

	It("finds a token whose Secret is of another owner, and revokes it", func(ctx SpecContext) {
		create(ctx, "apiVersion: v1\nkind: Secret\nmetadata: {namespace: fleet-clinic, name: taken}\nstringData: {a: b}\n")
		create(ctx, meta("ClusterRegistrationToken", "taken")+"spec: {ttl: 1h}\n")
		heals(ctx, "hub-tokens-values", "ClusterRegistrationToken fleet-clinic/taken", "^fleet .*token revoke taken -n fleet-clinic$", inClinic...)
	})

	It("finds two Clusters with one client ID, and gives one of them another", func(ctx SpecContext) {
		create(ctx, meta("Cluster", "twin-a")+"spec: {clientID: twin}\n")
		create(ctx, meta("Cluster", "twin-b")+"spec: {clientID: twin}\n")
		heals(ctx, "hub-client-ids", "Cluster fleet-clinic/twin-b", "^kubectl .*patch clusters.fleet.cattle.io", inClinic...)
		for _, name := range []string{"twin-a", "twin-b"} {
			Expect(world.Hub.Delete(ctx, client.Clusters, clinic, name)).To(Succeed())
		}
	})

	It("finds a GitRepo, and deletes it", func(ctx SpecContext) {
		create(ctx, meta("GitRepo", "repo")+"spec: {repo: 'https://example.com/repo'}\n")
		heals(ctx, "hub-gitrepos", "GitRepo fleet-clinic/repo", "^kubectl .*delete gitrepos.fleet.cattle.io -n fleet-clinic repo$", inClinic...)
	})

	It("finds a request for a Cluster of another manager, and takes the Cluster over", func(ctx SpecContext) {
		Expect(run(ctx, "", "token", "create", "managed", "-n", clinic, "--ttl", "1h").code).To(Equal(exit.Done))
		create(ctx, meta("Cluster", "managed")+"spec: {clientID: managed}\n")
		Expect(world.Hub.Patch(ctx, client.Clusters, clinic, "managed", []byte(`{"metadata":{"labels":{"fleet.cattle.io/cluster-management":"other"}}}`))).To(Succeed())
		Expect(world.Hub.Create(ctx, client.ClusterRegistrations, &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{Namespace: clinic, Name: "request", Labels: map[string]string{fleet.LabelRegistrationToken: "managed"}},
			Spec:       fleet.ClusterRegistrationSpec{ClientID: "managed", ClientRandom: "random"},
		})).To(Succeed())
		heals(ctx, "hub-registrations", "ClusterRegistration fleet-clinic/request", "^kubectl .*label clusters.fleet.cattle.io -n fleet-clinic managed", inClinic...)
		Expect(world.Hub.Delete(ctx, client.Clusters, clinic, "managed")).To(Succeed())
	})

	It("finds a kubeconfig that is missing, in another workspace, or not one, until the cluster is imported", func(ctx SpecContext) {
		printed(ctx, "kubectl config view --raw --flatten --minify --context west > west.kubeconfig")
		create(ctx, meta("Cluster", west)+"spec: {kubeConfigSecret: west-kubeconfig, kubeConfigSecretNamespace: clinic-secrets}\n")
		heals(ctx, "hub-kubeconfigs-exist", "Cluster fleet-clinic/west", "^kubectl .*create secret generic -n clinic-secrets west-kubeconfig", inClinic...)

		create(ctx, "apiVersion: v1\nkind: Secret\nmetadata: {namespace: clinic-secrets, name: west-kubeconfig}\nstringData: {value: 'not a kubeconfig'}\n")
		heals(ctx, "hub-kubeconfigs-valid", "Cluster fleet-clinic/west", "^kubectl .*config view .* && kubectl .* apply -f -$", inClinic...)

		heals(ctx, "hub-kubeconfigs-accepted", "Cluster fleet-clinic/west", "^kubectl .*annotate secret -n clinic-secrets west-kubeconfig", inClinic...)
		Eventually(func(g Gomega) {
			var cluster fleet.Cluster
			g.Expect(world.Hub.Get(ctx, client.Clusters, clinic, west, &cluster)).To(Succeed())
			g.Expect(cluster.Status.Agent.LastSeen.IsZero()).To(BeFalse())
		}).WithTimeout(framework.Patience).Should(Succeed())
	})

	It("finds a request that would replace an agent, and confirms it", func(ctx SpecContext) {
		var cluster fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, clinic, west, &cluster)).To(Succeed())
		Expect(run(ctx, "", "token", "create", "heir", "-n", clinic, "--ttl", "1h").code).To(Equal(exit.Done))
		Expect(world.Hub.Create(ctx, client.ClusterRegistrations, &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{Namespace: clinic, Name: "heir", Labels: map[string]string{fleet.LabelRegistrationToken: "heir"}},
			Spec:       fleet.ClusterRegistrationSpec{ClientID: cluster.Spec.ClientID, ClientRandom: "another"},
		})).To(Succeed())
		heals(ctx, "hub-takeovers", "ClusterRegistration fleet-clinic/heir", "^fleet .*confirm-takeover west heir -n fleet-clinic$", inClinic...)
	})

	It("finds controllers that are scaled to 0, and starts them", func(ctx SpecContext) {
		scale := `{"spec":{"replicas":0}}`
		Expect(world.Hub.Kube.AppsV1().RESTClient().Patch("application/merge-patch+json").Namespace(names.SystemNamespace).Resource("deployments").
			Name(names.ControllerConfig).Body([]byte(scale)).Do(ctx).Into(&appsv1.Deployment{})).To(Succeed())
		heals(ctx, "hub-controllers", "Deployment cattle-fleet-system/fleet-controller", "^kubectl .*scale .*--replicas=1$", inClinic...)
		passes(ctx, "hub-leases", inClinic...)
	})
})
