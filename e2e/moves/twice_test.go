package moves

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// owner returns the workspace of the Cluster to which the agent of fen belongs.
func owner(ctx SpecContext) string {
	GinkgoHelper()
	stored, err := world.On(fen).Kube.CoreV1().Secrets(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	identity, err := protocol.ParseIdentity(stored.Data)
	Expect(err).NotTo(HaveOccurred())
	return identity.ClusterNamespace
}

var _ = Describe("A cluster that two Clusters import", Ordered, func() {
	It("belongs to the later one", func(ctx SpecContext) {
		Expect(prepare()).To(Succeed())
		Expect(world.Import(ctx, fen, nil)).To(Succeed())
		_, err := world.Joined(ctx, framework.Workspace, "the first Cluster", framework.Named(fen))
		Expect(err).NotTo(HaveOccurred())
		Expect(world.ImportInto(ctx, team, fen, nil)).To(Succeed())
		_, err = world.Joined(ctx, team, "the later Cluster", framework.Named(fen))
		Expect(err).NotTo(HaveOccurred())
	})

	It("stays with that one when settings change", func(ctx SpecContext) {
		changed := settings()
		changed["garbageCollectionInterval"] = "20m"
		Expect(world.InstallHub(ctx, changed)).To(Succeed())
		first, err := client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Clusters, Namespace: framework.Workspace, Name: fen, For: "the earlier Cluster to give way", Within: framework.Patience,
		}, func(c *fleet.Cluster) bool {
			imported := conditions.Get(c.Status.Conditions, conditions.Imported)
			return imported != nil && imported.Reason == conditions.ReasonImportedTwice
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(conditions.Get(first.Status.Conditions, conditions.Imported).Message).To(ContainSubstring("fleet repair fen -n fleet-default"))
		var later fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, team, fen, &later)).To(Succeed())
		_, err = world.SeenAfter(ctx, &later, time.Now(), framework.Patience)
		Expect(err).NotTo(HaveOccurred())
		Expect(owner(ctx)).To(Equal(team))
	})

	It("comes back when its first Cluster is repaired", func(ctx SpecContext) {
		repaired := run(ctx, "", "repair", fen)
		Expect(repaired.Code).To(Equal(exit.Done), repaired.Stderr)
		Expect(owner(ctx)).To(Equal(framework.Workspace))
	})

	It("leaves", func(ctx SpecContext) {
		later := run(ctx, "", "unregister", fen, "-n", team)
		Expect(later.Code).To(Equal(exit.Done), later.Stderr)
		first := run(ctx, "", "unregister", fen, "--cluster-context", fen)
		Expect(first.Code).To(Equal(exit.Done), first.Stderr)
		Expect(world.AgentRemains(ctx, fen)).To(BeEmpty())
		for _, workspace := range []string{framework.Workspace, team} { // the kubeconfigs that are not of fleet import
			Expect(world.Hub.Kube.CoreV1().Secrets(workspace).Delete(ctx, fen+"-kubeconfig", metav1.DeleteOptions{})).To(Succeed())
		}
	})
})
