package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// batch is a number of clusters that registered, a bounded number of them at a time.
type batch struct {
	clusters int
	// span is from the first ClusterRegistration to the last first heartbeat, took the same of each, seen from outside.
	span time.Duration
	took []time.Duration
	// counts are all requests until nothing was written any more, used what they took.
	counts audit.Counts
	used   used
	// failures are requests of the agents that did not go well and were tried again, polling apart.
	failures int
}

// join lets n more agents register, each with its own Bundle reported ready, and waits until all is quiet.
func (b *bench) join(ctx context.Context, n int) (batch, error) {
	patient, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	here, err := b.controller(patient)
	if err != nil {
		return batch{}, err
	}
	meter, err := newMeter(here.pid, os.Getpid())
	if err != nil {
		return batch{}, err
	}
	if _, err := b.log.Next(); err != nil { // what was before is nobody's
		return batch{}, err
	}
	agents := b.add(n)
	b.swarm.Start(ctx, agents...)
	if err := b.swarm.Await(patient, swarm.Settled, agents...); err != nil {
		return batch{}, err
	}
	made := batch{clusters: n}
	var ids []string
	for _, a := range agents {
		ids = append(ids, a.ClientID())
		made.failures += a.State().Failures
		took, err := b.observer.took(patient, a.ClientID())
		if err != nil {
			return batch{}, err
		}
		made.took = append(made.took, took)
	}
	if made.span, err = b.observer.span(patient, ids); err != nil {
		return batch{}, err
	}
	if made.counts, err = b.untilQuiet(ctx); err != nil {
		return batch{}, err
	}
	made.used, err = meter.used()
	return made, err
}

// add makes agents with client IDs of their own, which stay.
func (b *bench) add(n int) (added []*swarm.Agent) {
	for range n {
		added = append(added, b.addWith(func(*swarm.Settings) {}))
	}
	return added
}

// addWith makes one with settings of its own.
func (b *bench) addWith(change func(*swarm.Settings)) *swarm.Agent {
	b.made++
	id := fmt.Sprintf("bench-%05d", b.made)
	settings := swarm.Settings{ClientID: id, Labels: benchLabels(), Pod: "fleet-agent-" + id}
	change(&settings)
	agent := b.swarm.Add(settings)
	b.agents = append(b.agents, agent)
	return agent
}

// and is the sum of two batches, one after the other.
func (b batch) and(later batch) batch {
	return batch{
		clusters: b.clusters + later.clusters, span: b.span + later.span, took: append(b.took, later.took...),
		counts: merged(b.counts, later.counts), failures: b.failures + later.failures,
		used: used{Controller: b.used.Controller + later.used.Controller, Simulator: b.used.Simulator + later.used.Simulator},
	}
}

// joined are the figures of clusters that registered together.
type joined struct {
	// Seconds is from the first ClusterRegistration to the last first heartbeat, both as seen from outside.
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"perSecond"`
	// Took is from a cluster's ClusterRegistration to its first heartbeat, while others registered.
	Took     spread `json:"took"`
	Requests costs  `json:"requests"`
	Objects  left   `json:"objects"`
	// ControllerMillis and SimulatorMillis are processor time per cluster, until all was quiet.
	ControllerMillis float64 `json:"controllerCPUMillisEach"`
	SimulatorMillis  float64 `json:"simulatorCPUMillisEach"`
	// Controller is its memory when all was quiet.
	Controller footprint `json:"controllerMemory"`
	// Failures are requests of the agents that failed and were tried again.
	Failures int `json:"failures"`
}

func (b batch) figures() joined {
	return joined{
		Seconds: seconds(b.span), PerSecond: round(float64(b.clusters)/max(b.span.Seconds(), 0.001), 1), Took: spreadOf(b.took),
		Requests: costsOf(b.counts, b.clusters), Failures: b.failures,
		ControllerMillis: per(millis(b.used.Controller), b.clusters), SimulatorMillis: per(millis(b.used.Simulator), b.clusters),
	}
}

// registration plays n clusters that register. With next the first of them are a batch of their own, whose costs are
// compared with those of as many after all others.
func (b *bench) registration(ctx context.Context, n int) (all joined, first *batch, err error) {
	before, err := b.inventory(ctx)
	if err != nil {
		return joined{}, nil, err
	}
	batches := []int{n}
	if b.plays(next) && n > b.first {
		batches = []int{b.first, n - b.first}
	}
	var sum batch
	for i, size := range batches {
		b.say("%d clusters register, %d at a time", size, b.atOnce)
		made, err := b.join(ctx, size)
		if err != nil {
			return joined{}, nil, err
		}
		if i == 0 {
			first = &made
			sum = made
			continue
		}
		sum = sum.and(made)
	}
	after, err := b.inventory(ctx)
	if err != nil {
		return joined{}, nil, err
	}
	here, err := b.controller(ctx)
	if err != nil {
		return joined{}, nil, err
	}
	all = sum.figures()
	all.Objects = leftBetween(before, after, n, registrations())
	all.Controller, err = footprintOf(here.pid)
	return all, first, err
}

// single plays clusters that register one after another, each when the one before it has reported all.
func (b *bench) single(ctx context.Context) (spread, error) {
	b.say("%d clusters register one after another", b.singles)
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	var took []time.Duration
	for range b.singles {
		agents := b.add(1)
		b.swarm.Start(context.WithoutCancel(ctx), agents...)
		if err := b.swarm.Await(ctx, swarm.Settled, agents...); err != nil {
			return spread{}, err
		}
		one, err := b.observer.took(ctx, agents[0].ClientID())
		if err != nil {
			return spread{}, err
		}
		took = append(took, one)
	}
	_, err := b.untilQuiet(ctx)
	return spreadOf(took), err
}

// flatness compares clusters that register first with as many that register when all others are there.
type flatness struct {
	Clusters int   `json:"clusters"`
	First    costs `json:"first"`
	Next     costs `json:"next"`
}

func (b *bench) next(ctx context.Context, first *batch) (flatness, error) {
	b.say("the next %d clusters register", first.clusters)
	made, err := b.join(ctx, first.clusters)
	if err != nil {
		return flatness{}, err
	}
	return flatness{Clusters: first.clusters, First: costsOf(first.counts, first.clusters), Next: costsOf(made.counts, first.clusters)}, nil
}
