package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
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
	b.say("%d Bundles for %d clusters", b.fleet, len(b.agents))
	if err := b.bundlesUpTo(ctx, b.fleet); err != nil {
		return grown{}, err
	}
	if _, err := b.untilQuiet(ctx); err != nil {
		return grown{}, err
	}
	b.say("one cluster more")
	g := grown{Clusters: len(b.agents), Bundles: len(b.bundles)}
	gate := newGate()
	agent := b.addWith(func(s *swarm.Settings) { s.Wrap = gate.wrap })
	b.swarm.Start(ctx, agent)
	j := &joining{who: b.who, deployments: g.Bundles + 1, complete: gate.open} // including its agent's own Bundle
	if err := b.listen(ctx, j.hear, func(time.Time) bool { return j.before > 0 }); err != nil {
		return grown{}, err
	}
	if err := b.allReady(ctx, len(b.agents)); err != nil {
		return grown{}, err
	}
	if err := b.listen(ctx, j.hear, b.isQuiet); err != nil {
		return grown{}, err
	}
	g.Before, g.Ready, g.Writes, g.Rows = j.before, j.ready, j.counts.Total().Requests, figures.CostsOf(j.counts, 1).Rows
	return g, nil
}

// joining counts the writes caused by a cluster.
type joining struct {
	who audit.Classifier
	// deployments is the number of its BundleDeployments. complete is called when all exist.
	deployments int
	complete    func()

	counts                 audit.Counts
	created, before, ready int
}

func (j *joining) hear(e audit.Event) {
	kind := e.Kind(j.who.Who(e))
	if !kind.IsCost() || !kind.IsWrite() {
		return
	}
	if j.counts == nil {
		j.counts = audit.Counts{}
	}
	j.counts.Add(kind.Identity, e)
	switch is := stepOf(kind); {
	case kind.Verb == "create" && is == wrote && !e.IsRefused():
		if j.created++; j.created == j.deployments {
			j.before = j.counts.Total().Requests
			j.complete()
		}
	case is == told || is == reported:
		j.ready = j.counts.Total().Requests
	}
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
