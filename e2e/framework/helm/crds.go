package helm

import (
	"context"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// CRDs installs chart fleet-crd on a control plane. Use it as plane.Options.BeforeControllers: a running garbage
// collector detects new CRDs only every half minute.
func CRDs(ctx context.Context, cluster *plane.Cluster) error {
	return Release{Config: cluster.Config(), Chart: "fleet-crd", Name: "fleet-crd", Namespace: names.SystemNamespace}.Install(ctx)
}

// HubCRDs installs chart fleet-crd only on the hub. As for users, downstream clusters have no CRDs of Fleet.
func HubCRDs(ctx context.Context, cluster *plane.Cluster) error {
	if cluster.Name != plane.HubName {
		return nil
	}
	return CRDs(ctx, cluster)
}
