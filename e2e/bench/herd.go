package main

import (
	"context"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// returned are the figures of a hub whose API server was gone, and to which all agents return.
type returned struct {
	Outage float64 `json:"outageSeconds"`
	// Beating and Watching are from when the API server was ready again to the last agent's first accepted heartbeat, and
	// to the last one's open watch; zero where that was before the first look at whether the server is ready.
	Beating  float64 `json:"secondsUntilAllBeat"`
	Watching float64 `json:"secondsUntilAllWatch"`
	// Failures are the agents' requests that failed from the beginning of the outage on.
	Failures int `json:"failures"`
	// Registrations are those made because of it.
	Registrations int `json:"registrations"`
	// Requests are those from the return until all was as before and one interval had passed.
	Requests   costs     `json:"requests"`
	Controller footprint `json:"controllerMemory"`
}

// herd takes the hub's API server away for a while.
func (b *bench) herd(ctx context.Context) (returned, error) {
	if !b.plays(idle) { // which has given the agents a short interval
		if err := b.restartAgents(ctx, b.checkin); err != nil {
			return returned{}, err
		}
	}
	b.say("the hub's API server is gone for %s", b.outage)
	hub, before := b.world.Plane.Hub, b.sum()
	if err := hub.Pause(); err != nil {
		return returned{}, err
	}
	if err := b.pass(ctx, b.outage); err != nil {
		return returned{}, err
	}
	if err := hub.Resume(ctx); err != nil {
		return returned{}, err
	}
	back := b.clock()
	b.say("it is back")
	r := returned{Outage: seconds(b.outage)}
	patient, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	if err := b.swarm.Await(patient, func(s swarm.State) bool { return s.LastBeat.After(back) }, b.agents...); err != nil {
		return returned{}, err
	}
	r.Beating = seconds(b.clock().Sub(back))
	// Each of them may have come back in any order, so the second wait is mostly over when it begins.
	if err := b.swarm.Await(patient, func(s swarm.State) bool { return s.Watching }, b.agents...); err != nil {
		return returned{}, err
	}
	for _, a := range b.agents {
		r.Watching = max(r.Watching, seconds(a.State().WatchingSince.Sub(back)))
	}
	return b.afterwards(ctx, r, before)
}

// afterwards completes the figures when everything is as before.
func (b *bench) afterwards(ctx context.Context, r returned, before sums) (returned, error) {
	after := b.sum()
	r.Failures, r.Registrations = after.failures-before.failures, after.registrations-before.registrations
	until := b.clock().Add(b.checkin)
	counts, err := b.count(ctx, func(time.Time) bool { return !b.clock().Before(until) })
	if err != nil {
		return returned{}, err
	}
	r.Requests = costsOf(counts, len(b.agents))
	here, err := b.controller(ctx)
	if err != nil {
		return returned{}, err
	}
	r.Controller, err = footprintOf(here.pid)
	return r, err
}

// sums are over all agents.
type sums struct{ failures, registrations int }

func (b *bench) sum() (all sums) {
	for _, a := range b.agents {
		s := a.State()
		all.failures += s.Failures
		all.registrations += s.Registrations
	}
	return all
}
