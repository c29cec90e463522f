package main

import (
	"context"

	"github.com/fleet-hub/fleet/e2e/bench/usage"
)

// laden are the figures of a hub with many BundleDeployments.
type laden struct {
	Clusters    int `json:"clusters"`
	Bundles     int `json:"bundles"`
	Deployments int `json:"bundleDeployments"`
	// Controller is the controller's memory when there are no more writes. Restart are the figures of its
	// successor.
	Controller usage.Footprint `json:"controllerMemory"`
	Restart    restarted       `json:"restart"`
}

// many delivers many Bundles to all clusters, and then restarts the controller.
func (b *bench) many(ctx context.Context) (laden, error) {
	b.say("%d Bundles for %d clusters", b.manyOf, len(b.agents))
	if err := b.bundlesUpTo(ctx, b.manyOf); err != nil {
		return laden{}, err
	}
	if _, err := b.untilQuiet(ctx); err != nil {
		return laden{}, err
	}
	here, err := b.controller(ctx)
	if err != nil {
		return laden{}, err
	}
	l := laden{Clusters: len(b.agents), Bundles: len(b.bundles), Deployments: len(b.agents) * (len(b.bundles) + 1)}
	if l.Controller, err = usage.Of(here.pid); err != nil {
		return laden{}, err
	}
	l.Restart, err = b.restart(ctx)
	return l, err
}
