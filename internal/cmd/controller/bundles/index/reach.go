package index

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ReachOf returns the workspaces in which a Bundle looks for clusters. Without mappings, that is its own workspace.
func ReachOf(a *hub.App, bundle *fleet.Bundle) (targeting.Reach, error) {
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

// Mappings returns the mappings of a workspace, or all mappings if the workspace is empty.
func Mappings(a *hub.App, workspace string) ([]targeting.Mapping, error) {
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

// Within returns those of a Bundle's BundleDeployments whose Clusters are within its reach. If an invalid mapping
// leaves the reach unknown, it also returns those that may be within reach. A BundleDeployment beyond the reach may
// have been created by another tenant, so it does not count for the Bundle.
func Within(reach targeting.Reach, deployments []*fleet.BundleDeployment) (within []*fleet.BundleDeployment) {
	for _, bd := range deployments {
		workspace := ClusterOf(bd).Namespace
		if reach.Knows(workspace) || reach.Unknown != nil && !reach.Excludes(workspace) {
			within = append(within, bd)
		}
	}
	return within
}
