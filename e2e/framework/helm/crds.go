package helm

import (
	"context"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// CRDs installs chart fleet-crd on a control plane. It is for plane.Options.BeforeControllers: a garbage collector that
// runs already learns of new kinds only every half minute.
func CRDs(ctx context.Context, cluster *plane.Cluster) error {
	return Release{Config: cluster.Config(), Chart: "fleet-crd", Name: "fleet-crd", Namespace: names.SystemNamespace}.Install(ctx)
}

// HubCRDs is CRDs for planes whose downstream clusters are to know nothing of Fleet, as a user's do not.
func HubCRDs(ctx context.Context, cluster *plane.Cluster) error {
	if cluster.Name != plane.HubName {
		return nil
	}
	return CRDs(ctx, cluster)
}
