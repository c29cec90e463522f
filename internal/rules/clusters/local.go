package clusters

import (
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// IsLocal reports whether a Cluster is the hub's own cluster.
func IsLocal(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	return cluster.Name == names.LocalCluster && bootstrap.Enabled() && cluster.Namespace == bootstrap.Namespace
}

// InBootstrapWorkspace reports whether a Cluster is in the workspace in which the hub registers itself. Only there may
// a kubeconfig lead to the hub's own cluster.
func InBootstrapWorkspace(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	if !bootstrap.Enabled() {
		return cluster.Namespace == names.LocalWorkspace
	}
	return cluster.Namespace == bootstrap.Namespace
}
