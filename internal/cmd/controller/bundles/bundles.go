// Package bundles deploys Bundles: it creates BundleDeployments in the namespaces of clusters, where the agents find
// them, and writes the reports of the agents to the status of Bundles, Clusters and ClusterGroups.
//
//	Bundle ─► bundle ─► Content, Secret, BundleDeployment ─► (agent) ─► status ─► Bundle, Cluster ─► clustergroup ─► ClusterGroup
//	                                   ├► content ─► unused Contents are deleted
//	                                   └► downstream ─► copies of Secrets and ConfigMaps, for the agent
package bundles

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/bundle"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/clustergroup"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/content"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/downstream"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/mapping"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/outcomes"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/status"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Register adds the controllers of this package to those that start with a. It must be called once.
func Register(ctx context.Context, a *hub.App) error {
	index.Add(a)
	store := outcomes.New()
	// status is registered first, because it is notified of the outcomes that bundle stores.
	if err := status.Register(ctx, a, store); err != nil {
		return fmt.Errorf("registering status: %w", err)
	}
	if err := bundle.Register(ctx, a, store); err != nil {
		return fmt.Errorf("registering bundle: %w", err)
	}
	err := downstream.Register(ctx, a, func(bd *fleet.BundleDeployment, trouble string) {
		store.SetTrouble(types.NamespacedName{Namespace: bd.Namespace, Name: bd.Name}, index.BundleOf(bd), trouble)
	})
	if err != nil {
		return fmt.Errorf("registering downstream: %w", err)
	}
	if err := content.Register(ctx, a); err != nil {
		return fmt.Errorf("registering content: %w", err)
	}
	if err := clustergroup.Register(ctx, a); err != nil {
		return fmt.Errorf("registering clustergroup: %w", err)
	}
	if err := mapping.Register(ctx, a); err != nil {
		return fmt.Errorf("registering mapping: %w", err)
	}
	return nil
}
