package bundle

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// mayPick returns a superset of the Bundles that target a cluster: those that the index finds for its labels and
// groups, and those mapped to its workspace.
func (h *handler) mayPick(cluster *fleet.Cluster, groups []string) []*fleet.Bundle {
	seen := map[types.UID]bool{}
	var out []*fleet.Bundle
	for _, key := range index.KeysOf(cluster.Namespace, cluster, groups) {
		found, err := h.app.Bundles.Cache().GetByIndex(index.BundlesByPick, key)
		if err != nil {
			return nil // only if the index is missing, which it is not
		}
		for _, bundle := range found {
			if !seen[bundle.UID] {
				seen[bundle.UID] = true
				out = append(out, bundle)
			}
		}
	}
	return append(out, h.mappedTo(cluster.Namespace)...)
}
