package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/delivery"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// grown are the figures of one more cluster on a hub with many clusters and Bundles.
type grown struct {
	Clusters int `json:"clusters"`
	Bundles  int `json:"bundles"`
	// Before is the number of writes from its ClusterRegistration until all its BundleDeployments exist. Its
	// agent sends its first report after that. Ready is the number until the last Bundle and the Cluster report
	// that everything is ready, Writes until there are no more writes.
	Before int           `json:"writesBeforeItReports"`
	Ready  int           `json:"writesUntilReady"`
	Writes int           `json:"writesUntilQuiet"`
	Rows   []figures.Row `json:"rows"`
}

// fleetLimit is the maximum number of clusters for scenario join-fleet, which needs many Bundles.
const fleetLimit = 200

// joinFleet adds one cluster to a hub with many Bundles.
func (b *bench) joinFleet(ctx context.Context) (grown, error) {
	b.Say("%d Bundles for %d clusters", b.fleet, len(b.agents))
	if err := b.bundlesUpTo(ctx, b.fleet); err != nil {
		return grown{}, err
	}
	if _, err := b.UntilQuiet(ctx); err != nil {
		return grown{}, err
	}
	b.Say("one cluster more")
	g := grown{Clusters: len(b.agents), Bundles: len(b.bundles)}
	gate := newGate()
	agent := b.addWith(func(s *swarm.Settings) { s.Wrap = gate.wrap })
	b.swarm.Start(ctx, agent)
	j := &delivery.Joining{Whose: b.Whose, Deployments: g.Bundles + 1, Complete: gate.open} // including its agent's own Bundle
	if err := b.Listen(ctx, j.Hear, func(time.Time) bool { return j.Before > 0 }); err != nil {
		return grown{}, err
	}
	if err := b.allReady(ctx, len(b.agents)); err != nil {
		return grown{}, err
	}
	if err := b.Listen(ctx, j.Hear, b.IsQuiet); err != nil {
		return grown{}, err
	}
	g.Before, g.Ready, g.Writes, g.Rows = j.Before, j.Ready, j.Counts.Total().Requests, figures.CostsOf(j.Counts, 1).Rows
	return g, nil
}

// gate delays the reports of an agent until it is opened.
type gate struct {
	opened chan struct{}
	open   func()
}

func newGate() *gate {
	opened := make(chan struct{})
	return &gate{opened: opened, open: sync.OnceFunc(func() { close(opened) })}
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper { return gated{g, next} }

type gated struct {
	*gate
	next http.RoundTripper
}

// RoundTrip delays a report until the gate is open or the request's context ends.
func (g gated) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/"+client.BundleDeployments+"/") {
		select {
		case <-g.opened:
		case <-r.Context().Done():
			return nil, fmt.Errorf("waiting to report: %w", context.Cause(r.Context()))
		}
	}
	return g.next.RoundTrip(r)
}
