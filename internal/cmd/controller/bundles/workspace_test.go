package bundles_test

import (
	"testing"

	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An agent that does not find its BundleDeployment uninstalls. The finalizer of the test stands for that of a Cluster whose agent
// has its rights.
func TestWorkspaceIsDeleted_BundleDeploymentsWaitForTheirClusters(t *testing.T) {
	t.Parallel()
	home, away := newWorld(t), newWorkspace(t)
	tier := "t-" + away.workspace
	away.labelWorkspace(t, "tier", tier)
	away.cluster(t, "far", nil)
	home.cluster(t, "near", nil)
	home.mapping(t, "m", &metav1.LabelSelector{}, byLabel("tier", tier))
	home.bundle(t, "web", everywhere)
	home.deployment(t, "web", "near", "that of its own workspace", exists)
	away.deployment(t, "web", "far", "that of a mapped cluster", exists)
	hold := func(resource, name string, finalizers ...string) {
		home.patch(t, resource, name, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	}
	hold(client.Clusters, "near", "test.example/rights")
	hold(client.Mappings, "m", "test.example/rights")

	must(t, home.Kube.CoreV1().Namespaces().Delete(t.Context(), home.workspace, metav1.DeleteOptions{}))
	away.expectGone(t, "web", "far")
	var near fleet.BundleDeployment
	must(t, home.Get(t.Context(), client.BundleDeployments, home.namespaceOf("near"), "web", &near))
	if near.DeletionTimestamp != nil {
		t.Error("it is being deleted before its Cluster")
	}

	hold(client.Clusters, "near")
	home.expectGone(t, "web", "near")
	hold(client.Mappings, "m")
	NewWithT(t).Eventually(func() error {
		return home.Get(t.Context(), client.Bundles, home.workspace, "web", &fleet.Bundle{})
	}).WithTimeout(patience).Should(MatchError(apierrors.IsNotFound, "the Bundle waits for no BundleDeployment"))
}
