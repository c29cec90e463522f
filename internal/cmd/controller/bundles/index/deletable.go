package index

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Deletable returns the BundleDeployments that a Bundle may delete now, without those that are being deleted. An agent uninstalls
// what it does not find. While a workspace is deleted, its Bundles and groups go in any order with its Clusters, and the deletion
// of each Cluster ends the rights of its agent before it deletes the BundleDeployments (package cluster). Until then they stay.
// Deletable asks the API server for the workspaces, because the cache may know of the deletion of a Bundle first.
func Deletable(a *hub.App, deployments []*fleet.BundleDeployment) (deletable []*fleet.BundleDeployment, err error) {
	ending := map[string]bool{}
	for _, bd := range deployments {
		if bd.DeletionTimestamp != nil {
			continue
		}
		of := ClusterOf(bd)
		isEnding, known := ending[of.Namespace]
		if !known {
			if isEnding, err = isBeingDeleted(a, of.Namespace); err != nil {
				return nil, err
			}
			ending[of.Namespace] = isEnding
		}
		if isEnding {
			cluster, err := reconcile.Optional(a.Clusters.Cache().Get(of.Namespace, of.Name))
			if err != nil {
				return nil, fmt.Errorf("reading Cluster %s from the cache: %w", of, err)
			}
			if cluster != nil && !clusters.ManagedElsewhere(cluster) {
				continue
			}
		}
		deletable = append(deletable, bd)
	}
	return deletable, nil
}

func isBeingDeleted(a *hub.App, workspace string) (bool, error) {
	if workspace == "" {
		return false, nil
	}
	namespace, err := reconcile.Optional(a.AllNamespaces.Get(workspace, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("reading Namespace %s: %w", workspace, err)
	}
	return namespace != nil && namespace.DeletionTimestamp != nil, nil
}
