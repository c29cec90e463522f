package main

import (
	"context"
	"io"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/agentalone"
)

// measureAgent runs scenario agent on its own hub.
func measureAgent(ctx context.Context, o options, clock func() time.Time, progress io.Writer) (f agentalone.Figures, err error) {
	o.downstreams = o.agent.Clusters()
	b, err := start(ctx, o, clock, progress)
	if err != nil {
		return f, err
	}
	defer func() { err = b.end(err) }()
	return agentalone.Measure(ctx, agentalone.Options{
		Settings: o.agent, World: b.world, AtOnce: o.atOnce, Patience: o.patience, Quiet: o.quiet, Clock: clock, Say: b.say, Progress: progress,
	})
}
