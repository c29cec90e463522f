package main

import (
	"context"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// returned are the figures of a hub after an outage of its API server, when all agents reconnect.
type returned struct {
	Outage float64 `json:"outageSeconds"`
	// Beating and Watching are the times from the API server being ready again until the last agent's first
	// accepted heartbeat, and until the last agent's open watch. They are zero if that happened before the first
	// readiness check.
	Beating  float64 `json:"secondsUntilAllBeat"`
	Watching float64 `json:"secondsUntilAllWatch"`
	// Failures is the number of failed requests of agents since the start of the outage.
	Failures int `json:"failures"`
	// Registrations is the number of registrations caused by the outage.
	Registrations int `json:"registrations"`
	// Requests are the requests from the end of the outage until all agents work again and one heartbeat interval
	// has passed.
	Requests   figures.Costs   `json:"requests"`
	Controller usage.Footprint `json:"controllerMemory"`
}

// herd stops the hub's API server for a while.
func (b *bench) herd(ctx context.Context) (returned, error) {
	if !b.plays(idle) { // scenario idle has set the short interval already
		if err := b.restartAgents(ctx, b.checkin); err != nil {
			return returned{}, err
		}
	}
	b.Say("the hub's API server is gone for %s", b.outage)
	hub, before := b.World.Plane.Hub, b.sum()
	if err := hub.Pause(); err != nil {
		return returned{}, err
	}
	if err := b.Pass(ctx, b.outage); err != nil {
		return returned{}, err
	}
	if err := hub.Resume(ctx); err != nil {
		return returned{}, err
	}
	back := b.Clock()
	b.Say("it is back")
	r := returned{Outage: figures.Seconds(b.outage)}
	patient, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	if err := b.swarm.Await(patient, func(s swarm.State) bool { return s.LastBeat.After(back) }, b.agents...); err != nil {
		return returned{}, err
	}
	r.Beating = figures.Seconds(b.Clock().Sub(back))
	// The agents return in any order, so the second wait is mostly over when it starts.
	if err := b.swarm.Await(patient, func(s swarm.State) bool { return s.Watching }, b.agents...); err != nil {
		return returned{}, err
	}
	for _, a := range b.agents {
		r.Watching = max(r.Watching, figures.Seconds(a.State().WatchingSince.Sub(back)))
	}
	return b.afterwards(ctx, r, before)
}

// afterwards adds the figures that are known when all agents work again.
func (b *bench) afterwards(ctx context.Context, r returned, before sums) (returned, error) {
	after := b.sum()
	r.Failures, r.Registrations = after.failures-before.failures, after.registrations-before.registrations
	until := b.Clock().Add(b.checkin)
	counts, err := b.Count(ctx, func(time.Time) bool { return !b.Clock().Before(until) })
	if err != nil {
		return returned{}, err
	}
	r.Requests = figures.CostsOf(counts, len(b.agents))
	here, err := b.Controller(ctx)
	if err != nil {
		return returned{}, err
	}
	r.Controller, err = usage.Of(here.PID)
	return r, err
}

// sums are totals over all agents.
type sums struct{ failures, registrations int }

func (b *bench) sum() (all sums) {
	for _, a := range b.agents {
		s := a.State()
		all.failures += s.Failures
		all.registrations += s.Registrations
	}
	return all
}
