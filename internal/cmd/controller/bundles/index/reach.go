package index

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ReachOf is where a Bundle looks for clusters. Where nothing is mapped, that is its own workspace.
func ReachOf(a *hub.Context, bundle *fleet.Bundle) (targeting.Reach, error) {
	mappings, err := Mappings(a, bundle.Namespace)
	if err != nil || len(mappings) == 0 {
		return targeting.NewReach(bundle, nil, nil), err
	}
	namespaces, err := a.AllNamespaces.Cache().List(labels.Everything())
	if err != nil {
		return targeting.Reach{}, err
	}
	return targeting.NewReach(bundle, mappings, namespaces), nil
}

// Mappings are those of a workspace; of all, if it is empty.
func Mappings(a *hub.Context, workspace string) ([]targeting.Mapping, error) {
	listed, err := a.BundleNamespaceMappings.Cache().List(workspace, labels.Everything())
	if err != nil {
		return nil, err
	}
	out := make([]targeting.Mapping, 0, len(listed))
	for _, mapping := range listed {
		out = append(out, targeting.NewMapping(mapping))
	}
	return out, nil
}

// Within are those of a Bundle's BundleDeployments that are for Clusters within its reach; all, where a broken mapping
// leaves open how far that is. One beyond its reach may be another tenant's work, and says nothing about the Bundle.
func Within(reach targeting.Reach, deployments []*fleet.BundleDeployment) (within []*fleet.BundleDeployment) {
	for _, bd := range deployments {
		workspace := ClusterOf(bd).Namespace
		if reach.Knows(workspace) || reach.Unknown != nil && !reach.Excludes(workspace) {
			within = append(within, bd)
		}
	}
	return within
}
