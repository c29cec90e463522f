// Package index finds the objects of a delivery from one another without lists.
package index

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Names of the indexes that Add puts on the caches.
const (
	// DeploymentsByBundle finds the BundleDeployments of a Bundle: "<workspace>/<bundle>".
	DeploymentsByBundle = "fleet.by-bundle"
	// DeploymentsByName finds the BundleDeployments of a name, in whatever namespace: those of a Bundle of that name, and
	// those that somebody took the labels off.
	DeploymentsByName = "fleet.by-name"
	// DeploymentsByContent finds the BundleDeployments that need a Content, by its name.
	DeploymentsByContent = "fleet.by-content"
	// ClustersByNamespace finds the Cluster a cluster namespace belongs to.
	ClustersByNamespace = "fleet.by-cluster-namespace"
)

// Add puts the indexes on the caches. To be called once, before the caches start.
func Add(a *hub.Context) {
	deployments := a.BundleDeployments.Cache()
	deployments.AddIndexer(DeploymentsByBundle, func(bd *fleet.BundleDeployment) ([]string, error) {
		if bundle := BundleOf(bd); bundle.Name != "" {
			return []string{bundle.String()}, nil
		}
		return nil, nil
	})
	deployments.AddIndexer(DeploymentsByName, func(bd *fleet.BundleDeployment) ([]string, error) { return []string{bd.Name}, nil })
	deployments.AddIndexer(DeploymentsByContent, func(bd *fleet.BundleDeployment) ([]string, error) {
		return ContentsOf(bd), nil
	})
	a.Bundles.Cache().AddIndexer(BundlesByPick, func(b *fleet.Bundle) ([]string, error) { return PicksOf(b), nil })
	a.Clusters.Cache().AddIndexer(ClustersByNamespace, func(c *fleet.Cluster) ([]string, error) {
		if c.Status.Namespace == "" {
			return nil, nil
		}
		return []string{c.Status.Namespace}, nil
	})
}

// BundleOf is the Bundle a BundleDeployment was made from, as its labels say. It is empty for a BundleDeployment that is
// not where the hub makes them: under the Bundle's name, in the namespace of the Cluster that the labels name. Tenants who
// may create BundleDeployments in some namespace may give them the labels of another tenant's Bundle.
func BundleOf(bd *fleet.BundleDeployment) types.NamespacedName {
	claimed, cluster := ClaimedBy(bd), ClusterOf(bd)
	if bd.Name != claimed.Name || bd.Namespace != names.ClusterNamespace(cluster.Namespace, cluster.Name) {
		return types.NamespacedName{}
	}
	return claimed
}

// ClaimedBy is the Bundle that the labels of a BundleDeployment name, wherever it is. Nothing may be done for that Bundle
// because of it: see BundleOf.
func ClaimedBy(bd *fleet.BundleDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}
}

// ClusterOf is the Cluster a BundleDeployment belongs to, as its labels say.
func ClusterOf(bd *fleet.BundleDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: bd.Labels[fleet.LabelClusterNamespace], Name: bd.Labels[fleet.LabelCluster]}
}

// ContentsOf names the Contents a BundleDeployment needs: the one it is labelled
// with, and those the agent has or will have, which differ while a change is held
// back. Each is named once.
func ContentsOf(bd *fleet.BundleDeployment) []string {
	current, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	staged, _ := content.SplitDeploymentID(bd.Spec.StagedDeploymentID)
	var out []string
	seen := map[string]bool{"": true}
	for _, name := range []string{bd.Labels[fleet.LabelContentName], current, staged} {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}
