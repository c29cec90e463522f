package agentalone

import (
	"flag"
	"fmt"
	"time"
)

// Settings are the flags of the scenario.
type Settings struct {
	idle, settle      time.Duration
	releases, samples int
	together          int
}

// Bind adds the flags.
func (o *Settings) Bind(flags *flag.FlagSet) {
	flags.DurationVar(&o.idle, "agent-idle", 10*time.Minute, "scenario agent: duration of the idle phase, in which requests are counted and after which memory is read")
	flags.DurationVar(&o.settle, "agent-settle", time.Minute, "scenario agent: pause between deployments and reading the memory")
	flags.IntVar(&o.releases, "agent-releases", 100, "scenario agent: number of releases with ten objects")
	flags.IntVar(&o.together, "agent-clusters", 1, "scenario agent: number of agents, each with its own cluster; their idle phases run at the same time")
	flags.IntVar(&o.samples, "agent-samples", 20, "scenario agent: number of releases that are deployed one after another and edited")
}

// Check returns an error that wraps invalid if an agent cannot be measured with these flags.
func (o *Settings) Check(invalid error) error {
	if o.samples < 1 || o.releases < o.samples {
		return fmt.Errorf("invalid flags -agent-samples %d, -agent-releases %d: want at least one sample and no more than releases: %w", o.samples, o.releases, invalid)
	}
	if o.together < 1 {
		return fmt.Errorf("invalid flag -agent-clusters %d: %w", o.together, invalid)
	}
	return nil
}
