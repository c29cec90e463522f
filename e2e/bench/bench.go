package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/growth"
	"github.com/fleet-hub/fleet/e2e/bench/hub"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// reportedResources is the number of objects that an agent reports for a Bundle.
const reportedResources = 10

// bench is a hub, and the agents and Bundles of the scenarios on it.
type bench struct {
	options
	*hub.Hub
	swarm   *swarm.Swarm
	agents  []*swarm.Agent // agents that stay
	made    int            // number of client IDs in use
	bundles []string       // Bundles that stay
	curve   growth.Curve
}

// start starts a hub with the settings of the flags.
func start(ctx context.Context, o options, clock func() time.Time, progress io.Writer) (*bench, error) {
	h, err := hub.Start(ctx, hub.Options{
		Binaries: o.binaries, Logs: o.logs, Downstreams: o.downstreams, ChartValues: o.hubValues(), Workspaces: o.spread,
		Quiet: o.quiet, Patience: o.patience, Clock: clock, Progress: progress,
	})
	if err != nil {
		return nil, err
	}
	agents := swarm.New(swarm.Options{AtOnce: o.atOnce, Resources: reportedResources, Clock: clock})
	return &bench{options: o, Hub: h, swarm: agents}, nil
}

// end stops the agents and the hub.
func (b *bench) end(err error) error {
	for _, a := range b.swarm.Agents() {
		a.Stop()
	}
	return b.End(err)
}

// rareHeartbeats is the interval between two heartbeats of an agent if there are so many agents that they register longer
// than the default interval: the hub would never be quiet. Scenario idle counts heartbeats.
const rareHeartbeats = 24 * time.Hour

// manyAgents is the most agents that register within the default interval on a slow machine.
const manyAgents = 2500

// isLarge reports whether there are more than manyAgents.
func (o options) isLarge() bool { return slices.Max(o.sizes) > manyAgents }

// hubValues returns the values of the hub's chart. They are the defaults, but for the addresses of profiles, the readers of
// Contents, and with many agents the limit of a token and the interval between heartbeats.
func (o options) hubValues() map[string]any {
	values, controller := map[string]any{}, map[string]any{}
	if o.profiles != "" {
		values["extraEnv"] = []any{map[string]any{"name": "FLEET_PROFILING_BIND_ADDRESS", "value": "127.0.0.1:0"}}
	}
	if o.isLarge() {
		controller["maxClustersPerToken"] = 0
		values["agentCheckinInterval"] = rareHeartbeats.String()
	}
	if o.readers != "" {
		controller["contentReaders"] = o.readers
	}
	values["controller"] = controller
	return values
}

// add adds agents with new client IDs. They stay until the end.
func (b *bench) add(n int) (added []*swarm.Agent) {
	for range n {
		added = append(added, b.addWith(func(*swarm.Settings) {}))
	}
	return added
}

// addWith adds an agent with changed settings.
func (b *bench) addWith(change func(*swarm.Settings)) *swarm.Agent {
	b.made++
	id := fmt.Sprintf("bench-%05d", b.made)
	settings := swarm.Settings{
		ClientID: id, Labels: benchLabels(), Pod: "fleet-agent-" + id, Keyed: true,
		Values: &b.AgentValues[b.made%len(b.AgentValues)],
	}
	if b.isLarge() {
		settings.Checkin = rareHeartbeats
	}
	change(&settings)
	agent := b.swarm.Add(settings)
	b.agents = append(b.agents, agent)
	return agent
}

// restartAgents stops all agents and starts them again with the same identities and another heartbeat interval.
func (b *bench) restartAgents(ctx context.Context, checkin time.Duration) error {
	fresh := swarm.New(swarm.Options{Values: b.AgentValues[0], Resources: reportedResources, Clock: b.Clock})
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

// beats returns the number of accepted heartbeats so far.
func (b *bench) beats() (sum int) {
	for _, a := range b.agents {
		sum += a.State().Beats
	}
	return sum
}
