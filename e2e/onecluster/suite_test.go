// Package onecluster tells of a hub that knows one cluster, and nothing else happens to: what it leaves behind can be
// seen object by object.
package onecluster

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/content"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// downstream is the cluster. Each story removes its agent.
const downstream = "downstream"

// What the cluster is called in the stories.
const (
	east = "east" // is imported
	west = "west" // comes by itself
)

var world *framework.World

func TestOneCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "one cluster, and what is left of it")
}

var _ = suite.Share(&world, framework.Options{Downstreams: []string{downstream}}, map[string]any{"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false}})

// greeting is a Bundle for the cluster with this label, which has a Secret of values there.
func greeting(name string) *fleet.Bundle {
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				DefaultNamespace: name,
				Helm:             &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"text": "hello " + name}}},
			},
			Resources: []fleet.BundleResource{
				{Name: "Chart.yaml", Content: "apiVersion: v2\nname: greeting\nversion: 0.1.0\n"},
				{Name: "templates/greeting.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  text: {{ .Values.text }}\n"},
			},
			Targets: []fleet.BundleTarget{{Name: "here", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": name}}}},
		},
	}
}

func saysHello(name string) func(*corev1.ConfigMap) bool {
	return func(c *corev1.ConfigMap) bool { return c.Data["text"] == "hello "+name }
}

// onTheHub is everything there is on the hub now but Events, Contents that are kept for now though nobody needs them, and
// what a workspace keeps for recoveries from its first Cluster on.
func onTheHub(ctx context.Context) (inventory.Inventory, error) {
	taken, err := inventory.Take(ctx, world.Plane.Hub.Config())
	if err != nil {
		return nil, err
	}
	return taken.Without(func(o inventory.Object, made time.Time) bool {
		recovers := o.Namespace == framework.Workspace && (o.Name == names.Recovery || o.Name == names.RecoveryToken) ||
			o.Namespace == names.SystemNamespace && strings.HasPrefix(o.Name, names.DeletedClusters)
		return recovers || o.Resource == "contents.fleet.cattle.io" && time.Since(made) < content.MinimumAge
	}), nil
}

// atRest waits until the controllers are at work, their namespaces are there, and each namespace has what Kubernetes
// puts into it, and returns what is there.
func atRest(ctx context.Context) (before inventory.Inventory) {
	GinkgoHelper()
	_, err := world.TokenValues(ctx, "warm-up") // the controllers answer
	Expect(err).NotTo(HaveOccurred())
	Expect(world.Hub.Delete(ctx, client.Tokens, framework.Workspace, "warm-up")).To(Succeed())
	credentials := names.RegistrationNamespace(names.SystemNamespace)
	Eventually(func(g Gomega) {
		before, err = onTheHub(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		found := map[inventory.Object]bool{}
		for object := range before {
			g.Expect(object.Name).NotTo(HavePrefix("warm-up"))
			object.UID = ""
			found[object] = true
		}
		g.Expect(before.Lacking()).To(BeEmpty())
		g.Expect(found).To(HaveKey(inventory.Object{Resource: "clusterroles.rbac.authorization.k8s.io", Name: "fleet-content"}))
		g.Expect(found).To(HaveKey(inventory.Object{Resource: "namespaces", Name: credentials}))
	}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
	return before
}

// removeAgent removes the agent of a deleted Cluster.
func removeAgent(ctx context.Context, cluster string) {
	GinkgoHelper()
	left, err := commandline.Run(ctx, world.User, "", "unregister", cluster, "-n", framework.Workspace, "--cluster-context", downstream)
	Expect(err).NotTo(HaveOccurred())
	Expect(left.Code).To(Equal(exit.Done), left.Stderr)
}

// expectSame waits until the hub has exactly what it had before.
func expectSame(ctx context.Context, before inventory.Inventory) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		after, err := onTheHub(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(before.Differs(after)).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
}
