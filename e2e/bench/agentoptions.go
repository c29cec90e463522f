package main

import (
	"flag"
	"fmt"
	"time"
)

// agentOptions are the flags of scenario agent.
type agentOptions struct {
	idle, settle      time.Duration
	releases, samples int
	together          int
}

func (o *agentOptions) bind(flags *flag.FlagSet) {
	flags.DurationVar(&o.idle, "agent-idle", 10*time.Minute, "scenario agent: how long the agent has nothing to do before its memory is read, and its requests are counted")
	flags.DurationVar(&o.settle, "agent-settle", time.Minute, "scenario agent: how long after deployments its memory is read")
	flags.IntVar(&o.releases, "agent-releases", 100, "scenario agent: how many releases of ten objects it has in the end")
	flags.IntVar(&o.together, "agent-clusters", 1, "scenario agent: how many agents are measured, each a process on a cluster of its own; they idle at the same time")
	flags.IntVar(&o.samples, "agent-samples", 20, "scenario agent: how many of them are deployed one after another, and edited")
}

func (o *agentOptions) check() error {
	if o.samples < 1 || o.releases < o.samples {
		return fmt.Errorf("-agent-samples %d, -agent-releases %d: at least one sample, and no more than releases: %w", o.samples, o.releases, errUsage)
	}
	if o.together < 1 {
		return fmt.Errorf("-agent-clusters %d: %w", o.together, errUsage)
	}
	return nil
}
