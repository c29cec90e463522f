package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// resting are the figures of idle clusters.
type resting struct {
	Checkin float64 `json:"checkinSeconds"`
	Seconds float64 `json:"seconds"`
	// PerHour is the number of requests per cluster and hour, without leases and requests of the measurement.
	// AgentPerHour is the agent's part of it.
	PerHour      float64 `json:"requestsPerClusterAndHour"`
	AgentPerHour float64 `json:"agentRequestsPerClusterAndHour"`
	// PerHeartbeat is the number of requests per heartbeat, which does not depend on the interval.
	PerHeartbeat float64 `json:"requestsPerHeartbeat"`
	// ControllerMillis and SimulatorMillis are processor time per heartbeat.
	ControllerMillis float64 `json:"controllerCPUMillisPerHeartbeat"`
	SimulatorMillis  float64 `json:"simulatorCPUMillisPerHeartbeat"`
	// Leases is the number of all lease renewals on the hub in that time.
	Leases     int             `json:"leases"`
	Rows       []figures.Row   `json:"rows"`
	Controller usage.Footprint `json:"controllerMemory"`
}

// restartAgents stops all agents and starts them again with the same identities and another heartbeat interval.
func (b *bench) restartAgents(ctx context.Context, checkin time.Duration) error {
	fresh := swarm.New(swarm.Options{Values: b.values, Resources: reportedResources, Clock: b.clock})
	var started []*swarm.Agent
	for _, a := range b.agents {
		a.Stop()
		settings := swarm.Settings{ClientID: a.ClientID(), Checkin: checkin}
		if identity, ok := a.Identity(); ok {
			settings.Restored = &identity
		}
		started = append(started, fresh.Add(settings))
	}
	b.swarm, b.agents = fresh, started
	fresh.Start(ctx, started...)
	patient, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	return fresh.Await(patient, func(s swarm.State) bool { return s.Beats > 0 && s.Watching }, started...)
}

// idle measures the costs of clusters that only send heartbeats.
func (b *bench) idle(ctx context.Context) (resting, error) {
	b.say("%d clusters do nothing for %s but say so every %s", len(b.agents), b.idleFor, b.checkin)
	if err := b.restartAgents(ctx, b.checkin); err != nil {
		return resting{}, err
	}
	// One interval passes first, because requests after the agents' restart are not part of the idle costs.
	if err := b.pass(ctx, b.checkin); err != nil {
		return resting{}, err
	}
	here, err := b.controller(ctx)
	if err != nil {
		return resting{}, err
	}
	meter, err := newMeter(here.pid, os.Getpid())
	if err != nil {
		return resting{}, err
	}
	before, began := b.beats(), b.clock()
	counts, err := b.count(ctx, func(time.Time) bool { return b.clock().Sub(began) >= b.idleFor })
	if err != nil {
		return resting{}, err
	}
	took, beats := b.clock().Sub(began), b.beats()-before
	used, err := meter.used()
	if err != nil {
		return resting{}, err
	}
	r := restingFigures(counts, len(b.agents), beats, took)
	r.Checkin = figures.Seconds(b.checkin)
	r.ControllerMillis, r.SimulatorMillis = figures.Per(figures.Millis(used.Controller), beats), figures.Per(figures.Millis(used.Simulator), beats)
	r.Controller, err = usage.Of(here.pid)
	return r, err
}

func restingFigures(counts audit.Counts, clusters, beats int, took time.Duration) resting {
	all := figures.CostsOf(counts, clusters)
	requests := counts.Only(audit.Kind.IsCost).Total().Requests
	agents := counts.Only(func(k audit.Kind) bool { return k.Identity == audit.Request }).Total().Requests
	hours := took.Hours()
	return resting{
		Seconds: figures.Seconds(took), PerHour: figures.Per(float64(requests)/hours, clusters), AgentPerHour: figures.Per(float64(agents)/hours, clusters),
		PerHeartbeat: figures.Per(float64(requests), beats), Leases: all.Leases, Rows: all.Rows,
	}
}

// pass waits, and drops the counts of that time.
func (b *bench) pass(ctx context.Context, d time.Duration) error {
	until := b.clock().Add(d)
	_, err := b.count(ctx, func(time.Time) bool { return !b.clock().Before(until) })
	if err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	return nil
}

// beats returns the number of accepted heartbeats so far.
func (b *bench) beats() (sum int) {
	for _, a := range b.agents {
		sum += a.State().Beats
	}
	return sum
}
