package main

import (
	"context"
	"fmt"

	"github.com/fleet-hub/fleet/e2e/bench/standby"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// standsBy are the figures of a standby.
type standsBy struct {
	Clusters int `json:"clusters"`
	Bundles  int `json:"bundles"`
	standby.Figures
}

// standby measures how soon a second replica takes over from the leader on a hub with many Bundles.
func (b *bench) standby(ctx context.Context) (standsBy, error) {
	if err := b.bundlesUpTo(ctx, b.manyOf); err != nil {
		return standsBy{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	b.Say("a second replica stands by, with %d Bundles for %d clusters; the leader is killed, and then the next one stopped", len(b.bundles), len(b.agents))
	hub := standby.Hub{
		Kube: b.World.Hub.Kube, Clock: b.Clock, Change: b.changeOne,
		Kill: func(ctx context.Context, pod string) error {
			return b.World.KillPod(ctx, framework.HubName, names.SystemNamespace, pod)
		},
		Log: func(pod string) ([]byte, error) { return b.World.PodLog(framework.HubName, names.SystemNamespace, pod) },
		Rest: func(ctx context.Context) error {
			_, err := b.UntilQuiet(ctx)
			return err
		},
		Resident: b.Resident,
	}
	figures, err := hub.Measure(ctx)
	if err != nil {
		return standsBy{}, err
	}
	for _, name := range standby.Changes() {
		if err := b.World.Hub.Delete(ctx, client.Bundles, framework.Workspace, probe(name)); err != nil {
			return standsBy{}, err
		}
	}
	_, err = b.UntilQuiet(ctx)
	return standsBy{Clusters: len(b.agents), Bundles: len(b.bundles), Figures: figures}, err
}

// probe returns the name of the Bundle of a change.
func probe(change string) string { return "standby-" + change }

// changeOne creates a Bundle for one cluster, and waits until its BundleDeployment exists.
func (b *bench) changeOne(ctx context.Context, name string) error {
	credential := b.agents[0].Credential()
	bundle := deployed(probe(name))
	bundle.Spec.Targets = []fleet.BundleTarget{{ClusterName: credential.ClusterName}}
	if err := b.World.Hub.Create(ctx, client.Bundles, bundle); err != nil {
		return fmt.Errorf("creating Bundle %s: %w", bundle.Name, err)
	}
	_, err := client.Until(ctx, client.Await{
		From: b.World.Hub.Fleet, Resource: client.BundleDeployments, Namespace: credential.DeploymentNamespace, Name: bundle.Name,
		For: "the BundleDeployment of " + bundle.Name, Within: b.patience,
	}, func(*fleet.BundleDeployment) bool { return true })
	return err
}
