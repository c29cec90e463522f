package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An agent uninstalls a release when it reads that its BundleDeployment does not exist. A deletion of its Cluster, or of the
// Cluster's namespace, is no order to uninstall, so it must end the agent's rights before the BundleDeployments. The deletion of its
// account is not enough: the API server accepts a token that it has checked for some seconds more.
func TestClusterOrNamespaceIsDeleted_AgentReadsNoOrderToUninstall(t *testing.T) {
	hub := hub(t)
	namespaces := hub.Kube.CoreV1().Namespaces()
	for name, remove := range map[string]func(context.Context, member) error{
		"cluster": func(ctx context.Context, m member) error {
			return hub.Delete(ctx, client.Clusters, m.workspace, m.name)
		},
		"namespace": func(ctx context.Context, m member) error {
			return namespaces.Delete(ctx, m.namespace, metav1.DeleteOptions{})
		},
		"workspace": func(ctx context.Context, m member) error {
			return namespaces.Delete(ctx, m.workspace, metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			awaitRest(t, hub)
			g, ws := NewWithT(t), workspace(t, hub, "ws-orders-"+names.KeyHash(t.TempDir()))
			var members []member
			var agents []*polling
			for i := range 3 {
				m := join(t, hub, ws, fmt.Sprintf("c%d", i))
				t.Cleanup(func() { // other tests count silent Clusters
					g.Expect(hub.Delete(context.WithoutCancel(t.Context()), client.Clusters, ws, m.name)).To(Succeed())
				})
				members = append(members, m)
				agents = append(agents, poll(t, hub, members[i]))
			}
			for _, m := range members {
				g.Expect(remove(t.Context(), m)).To(Or(Succeed(), MatchError(apierrors.IsConflict, "the workspace is being deleted")))
			}
			for i, a := range agents {
				g.Eventually(a.ended).WithTimeout(2*patience).Should(BeClosed(), members[i].name+" still has its rights")
				g.Expect(a.told).To(BeEmpty(), members[i].name)
			}
		})
	}
}

// polling is an agent that asks for its BundleDeployment again and again.
type polling struct {
	// told are the answers besides the BundleDeployment until the API server refused to answer.
	told  map[string]int
	ended chan struct{}
}

// poll starts an agent with a token of the account that the hub made for the cluster.
func poll(t *testing.T, hub *client.Client, m member) *polling {
	t.Helper()
	g := NewWithT(t)
	accounts := hub.Kube.CoreV1().ServiceAccounts(m.namespace)
	all, err := accounts.List(t.Context(), metav1.ListOptions{LabelSelector: fleet.LabelManaged + "=true"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).To(HaveLen(1))
	token, err := accounts.CreateToken(t.Context(), all.Items[0].Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(control.Plane(t).Hub.Config())
	config.BearerToken, config.QPS = token.Status.Token, -1
	agent, err := client.New(config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(agent.Get(t.Context(), client.BundleDeployments, m.namespace, "hello", &fleet.BundleDeployment{})).To(Succeed())
	p, ctx := &polling{ended: make(chan struct{}), told: map[string]int{}}, t.Context()
	go func() {
		defer close(p.ended)
		pause := time.NewTicker(5 * time.Millisecond)
		defer pause.Stop()
		for ctx.Err() == nil {
			err := agent.Get(ctx, client.BundleDeployments, m.namespace, "hello", &fleet.BundleDeployment{})
			switch {
			case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
				return
			case err != nil:
				p.told[err.Error()]++
			}
			<-pause.C
		}
	}()
	return p
}
