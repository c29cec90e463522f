package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/client"
)

// delivered are the figures of the delivery of a Bundle, or of a change of it, to all clusters.
type delivered struct {
	Clusters int `json:"clusters"`
	// Written is the time from the request that created or changed the Bundle until the last BundleDeployment is
	// written, Reported until the last agent's report, and Final until the last status of a Bundle, Cluster or
	// ClusterGroup. All times are from the API server's audit log.
	Written  float64 `json:"secondsUntilWritten"`
	Reported float64 `json:"secondsUntilReported"`
	Final    float64 `json:"secondsUntilFinal"`
	// Each is the number of requests per cluster, without the agents' reads for deployments, which AgentReads
	// counts.
	Each       float64       `json:"requestsEach"`
	AgentReads float64       `json:"agentReadsEach"`
	Requests   figures.Costs `json:"requests"`
	// ControllerMillis and SimulatorMillis are processor time per cluster, until there are no more writes.
	ControllerMillis float64         `json:"controllerCPUMillisEach"`
	SimulatorMillis  float64         `json:"simulatorCPUMillisEach"`
	Controller       usage.Footprint `json:"controllerMemory"`
}

// errNoCause means that the audit log does not contain the request that started the delivery.
var errNoCause = errors.New("the audit log does not contain the request that started the delivery")

// deliver delivers one Bundle to all clusters.
func (b *bench) deliver(ctx context.Context) (delivered, error) {
	b.say("a Bundle for %d clusters", len(b.agents))
	return b.delivery(ctx, b.addBundle)
}

// change changes one value of a Bundle.
func (b *bench) change(ctx context.Context) (delivered, error) {
	if err := b.bundlesUpTo(ctx, 1); err != nil {
		return delivered{}, err
	}
	if _, err := b.untilQuiet(ctx); err != nil {
		return delivered{}, err
	}
	b.say("one value of a Bundle changes on %d clusters", len(b.agents))
	return b.delivery(ctx, func(ctx context.Context) error { return b.changeBundle(ctx, b.bundles[0], "1.0.1") })
}

// delivery measures from begin until all Bundles are ready everywhere, all statuses are written, and there are no
// more writes.
func (b *bench) delivery(ctx context.Context, begin func(context.Context) error) (delivered, error) {
	here, err := b.controller(ctx)
	if err != nil {
		return delivered{}, err
	}
	meter, err := newMeter(here.pid, os.Getpid())
	if err != nil {
		return delivered{}, err
	}
	if _, err := b.log.Next(); err != nil { // skip earlier requests
		return delivered{}, err
	}
	if err := begin(ctx); err != nil {
		return delivered{}, err
	}
	if err := b.allReady(ctx, len(b.agents)); err != nil {
		return delivered{}, err
	}
	events, err := b.eventsUntilQuiet(ctx)
	if err != nil {
		return delivered{}, err
	}
	d, err := b.deliveredBy(events)
	if err != nil {
		return delivered{}, err
	}
	used, err := meter.used()
	if err != nil {
		return delivered{}, err
	}
	d.ControllerMillis, d.SimulatorMillis = figures.Per(figures.Millis(used.Controller), d.Clusters), figures.Per(figures.Millis(used.Simulator), d.Clusters)
	d.Controller, err = usage.Of(here.pid)
	return d, err
}

// deliveredBy computes the figures from the audit log.
func (b *bench) deliveredBy(events []audit.Event) (delivered, error) {
	began, last, counts := time.Time{}, map[step]time.Time{}, audit.Counts{}
	for _, e := range events {
		who := b.who.Who(e)
		counts.Add(who, e)
		if e.IsRefused() {
			continue
		}
		is := stepOf(e.Kind(who))
		if is == begun && (began.IsZero() || e.Received.Before(began)) {
			began = e.Received
		}
		if e.Ended.After(last[is]) {
			last[is] = e.Ended
		}
	}
	if began.IsZero() {
		return delivered{}, errNoCause
	}
	until := func(steps ...step) float64 {
		end := began
		for _, s := range steps {
			if last[s].After(end) {
				end = last[s]
			}
		}
		return figures.Seconds(end.Sub(began))
	}
	clusters := len(b.agents)
	reads := counts.Only(func(k audit.Kind) bool { return k.Identity == audit.Request && !k.IsWrite() }).Total().Requests
	all := counts.Only(audit.Kind.IsCost).Total().Requests
	return delivered{
		Clusters: clusters, Requests: figures.CostsOf(counts, clusters), AgentReads: figures.Per(float64(reads), clusters), Each: figures.Per(float64(all-reads), clusters),
		Written: until(wrote), Reported: until(reported), Final: until(reported, told),
	}, nil
}

// step is the role of a request in a delivery.
type step int

const (
	aside step = iota
	begun
	wrote
	reported
	told
)

// stepOf returns the role of a kind of request in a delivery.
func stepOf(k audit.Kind) step {
	switch {
	case !k.IsWrite():
		return aside
	case k.Identity == audit.Admin && k.Resource == client.Bundles:
		return begun
	case k.Identity == audit.Controller && k.Resource == client.BundleDeployments:
		return wrote
	case k.Identity == audit.Request && k.Resource == client.BundleDeployments+"/status":
		return reported
	case k.Identity == audit.Controller && slices.Contains([]string{"bundles/status", "clusters/status", "clustergroups/status"}, k.Resource):
		return told
	default:
		return aside
	}
}
