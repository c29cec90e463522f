package index

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Names of the indexes that Add creates.
const (
	// DeploymentsByBundle finds the BundleDeployments of a Bundle: "<workspace>/<bundle>".
	DeploymentsByBundle = "fleet.by-bundle"
	// DeploymentsByName finds the BundleDeployments of a name in all namespaces: those of a Bundle of that name, and
	// those whose labels were removed.
	DeploymentsByName = "fleet.by-name"
	// DeploymentsByContent finds the BundleDeployments that need a Content, by its name.
	DeploymentsByContent = "fleet.by-content"
	// ClustersByNamespace finds the Cluster a cluster namespace belongs to.
	ClustersByNamespace = "fleet.by-cluster-namespace"
)

// Add adds the indexes to the caches. It must be called once, before the caches start.
func Add(a *hub.App) {
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

// BundleOf returns the Bundle that a BundleDeployment was made from, according to its labels. It returns an empty key
// unless the BundleDeployment has the Bundle's name and is in the namespace of the Cluster that its labels name, which
// is where the hub creates it. Tenants with the right to create BundleDeployments elsewhere could otherwise claim
// another tenant's Bundle by labels.
func BundleOf(bd *fleet.BundleDeployment) types.NamespacedName {
	claimed, cluster := ClaimedBy(bd), ClusterOf(bd)
	if bd.Name != claimed.Name || bd.Namespace != names.ClusterNamespace(cluster.Namespace, cluster.Name) {
		return types.NamespacedName{}
	}
	return claimed
}

// ClaimedBy returns the Bundle that the labels of a BundleDeployment name, without any check. Callers must not act on
// that Bundle because of it: see BundleOf.
func ClaimedBy(bd *fleet.BundleDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}
}

// ClusterOf returns the Cluster that the labels of a BundleDeployment name.
func ClusterOf(bd *fleet.BundleDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: bd.Labels[fleet.LabelClusterNamespace], Name: bd.Labels[fleet.LabelCluster]}
}

// KindDeployment is the kind of the owners of copies.
const KindDeployment = "BundleDeployment"

// IsCopy reports whether an object with these owners is a copy of a Secret or ConfigMap that was made for a
// BundleDeployment.
func IsCopy(owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool {
		return owner.Kind == KindDeployment && strings.HasPrefix(owner.APIVersion, fleet.SchemeGroupVersion.Group+"/")
	})
}

// ContentsOf returns the names of the Contents that a BundleDeployment needs: the one in its label, and those of its
// current and its staged deployment, which differ while a change is held back. Each name occurs once.
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
