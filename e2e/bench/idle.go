package main

import (
	"context"
	"os"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
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

// idle measures the costs of clusters that only send heartbeats.
func (b *bench) idle(ctx context.Context) (resting, error) {
	b.Say("%d clusters do nothing for %s but say so every %s", len(b.agents), b.idleFor, b.checkin)
	if err := b.restartAgents(ctx, b.checkin); err != nil {
		return resting{}, err
	}
	// One interval passes first, because requests after the agents' restart are not part of the idle costs.
	if err := b.Pass(ctx, b.checkin); err != nil {
		return resting{}, err
	}
	here, err := b.Controller(ctx)
	if err != nil {
		return resting{}, err
	}
	meter, err := usage.NewMeter(here.PID, os.Getpid())
	if err != nil {
		return resting{}, err
	}
	before, began := b.beats(), b.Clock()
	counts, err := b.Count(ctx, func(time.Time) bool { return b.Clock().Sub(began) >= b.idleFor })
	if err != nil {
		return resting{}, err
	}
	took, beats := b.Clock().Sub(began), b.beats()-before
	used, err := meter.Used()
	if err != nil {
		return resting{}, err
	}
	r := restingFigures(counts, len(b.agents), beats, took)
	r.Checkin = figures.Seconds(b.checkin)
	r.ControllerMillis, r.SimulatorMillis = figures.Per(figures.Millis(used.Controller), beats), figures.Per(figures.Millis(used.Simulator), beats)
	r.Controller, err = usage.Of(here.PID)
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
