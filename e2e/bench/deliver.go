package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fleet-hub/fleet/e2e/bench/delivery"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
)

// deliver delivers one Bundle to all clusters. With -profiles, it takes profiles of the first seconds.
func (b *bench) deliver(ctx context.Context) (delivery.Figures, error) {
	b.Say("a Bundle for %d clusters", len(b.agents))
	if b.profiles == "" {
		return b.delivery(ctx, b.addBundle)
	}
	var d delivery.Figures
	_, err := b.profiledWhile(ctx, fmt.Sprintf("delivers-to-%d-clusters", len(b.agents)), func() (err error) {
		d, err = b.delivery(ctx, b.addBundle)
		return err
	})
	return d, err
}

// change changes one value of a Bundle.
func (b *bench) change(ctx context.Context) (delivery.Figures, error) {
	if err := b.bundlesUpTo(ctx, 1); err != nil {
		return delivery.Figures{}, err
	}
	if _, err := b.UntilQuiet(ctx); err != nil {
		return delivery.Figures{}, err
	}
	b.Say("one value of a Bundle changes on %d clusters", len(b.agents))
	return b.delivery(ctx, func(ctx context.Context) error { return b.changeBundle(ctx, b.bundles[0], "1.0.1") })
}

// delivery measures from begin until all Bundles are ready everywhere, all statuses are written, and there are no
// more writes.
func (b *bench) delivery(ctx context.Context, begin func(context.Context) error) (delivery.Figures, error) {
	here, err := b.Controller(ctx)
	if err != nil {
		return delivery.Figures{}, err
	}
	meter, err := usage.NewMeter(here.PID, os.Getpid())
	if err != nil {
		return delivery.Figures{}, err
	}
	if err := b.Skip(); err != nil { // skip earlier requests
		return delivery.Figures{}, err
	}
	if err := begin(ctx); err != nil {
		return delivery.Figures{}, err
	}
	if err := b.allReady(ctx, len(b.agents)); err != nil {
		return delivery.Figures{}, err
	}
	events, err := b.EventsUntilQuiet(ctx)
	if err != nil {
		return delivery.Figures{}, err
	}
	d, err := delivery.Of(events, b.Whose, len(b.agents))
	if err != nil {
		return delivery.Figures{}, err
	}
	used, err := meter.Used()
	if err != nil {
		return delivery.Figures{}, err
	}
	d.ControllerMillis, d.SimulatorMillis = figures.Per(figures.Millis(used.Controller), d.Clusters), figures.Per(figures.Millis(used.Simulator), d.Clusters)
	d.Controller, err = usage.Of(here.PID)
	return d, err
}

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
	b.Say("%d Bundles for %d clusters", b.manyOf, len(b.agents))
	if err := b.bundlesUpTo(ctx, b.manyOf); err != nil {
		return laden{}, err
	}
	if _, err := b.UntilQuiet(ctx); err != nil {
		return laden{}, err
	}
	here, err := b.Controller(ctx)
	if err != nil {
		return laden{}, err
	}
	l := laden{Clusters: len(b.agents), Bundles: len(b.bundles), Deployments: len(b.agents) * (len(b.bundles) + 1)}
	if l.Controller, err = usage.Of(here.PID); err != nil {
		return laden{}, err
	}
	l.Restart, err = b.restart(ctx)
	return l, err
}
