package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scenarios, in the order in which they are played on one hub. All but the first need its clusters.
const (
	registration = "registration"
	single       = "single"
	next         = "next"
	restart      = "restart"
	deliver      = "deliver"
	change       = "change"
	fleetOf      = "join-fleet"
	many         = "many"
	idle         = "idle"
	herd         = "herd"
	agentAlone   = "agent" // on a hub of its own, with a cluster beside it
)

// errUsage means that the command was called in a way it does not know.
var errUsage = errors.New("see -h")

// options are the flags.
type options struct {
	sizes     []int
	atOnce    int
	first     int
	singles   int
	manyOf    int
	fleet     int
	checkin   time.Duration
	idleFor   time.Duration
	outage    time.Duration
	quiet     time.Duration
	patience  time.Duration
	binaries  string
	logs      string
	scenarios []string
	agent     agentOptions
	// downstreams are the clusters beside the hub, which scenario agent has.
	downstreams []string
}

func allScenarios() []string {
	return []string{registration, single, next, restart, deliver, change, many, fleetOf, idle, herd, agentAlone}
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	sizes := flags.String("n", "10,100,1000", "numbers of clusters, each on a hub of its own")
	scenarios := flags.String("scenarios", strings.Join(allScenarios(), ","), "what to play, of "+strings.Join(allScenarios(), ", ")+"; all others need registration, but agent does not")
	flags.IntVar(&o.atOnce, "at-once", 20, "agents that register at a time")
	flags.IntVar(&o.first, "first", 100, "scenario next: how many clusters after the others, compared with as many at the beginning")
	flags.IntVar(&o.singles, "singles", 20, "scenario single: how many clusters, one after another")
	flags.IntVar(&o.manyOf, "bundles", 20, "scenario many: how many Bundles for all clusters")
	flags.IntVar(&o.fleet, "fleet", 50, "scenario join-fleet: the same")
	flags.DurationVar(&o.checkin, "checkin", 20*time.Second, "scenarios idle and herd: time between two heartbeats; else it is the default of agents")
	flags.DurationVar(&o.idleFor, "idle-for", time.Minute, "scenario idle: how long requests are counted")
	flags.DurationVar(&o.outage, "outage", 2*time.Minute, "scenario herd: how long the hub's API server is gone")
	flags.DurationVar(&o.quiet, "quiet", 10*time.Second, "requests are counted until nothing was written for so long")
	flags.DurationVar(&o.patience, "patience", 20*time.Minute, "give a step up after this long")
	flags.StringVar(&o.binaries, "binaries", "", "folder with fleetcontroller and fleetagent; empty builds them")
	flags.StringVar(&o.logs, "logs", "", "keep the logs of all components in this folder")
	o.agent.bind(flags)
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("reading the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q: %w", flags.Arg(0), errUsage)
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-n: %q is no number of clusters: %w", text, errUsage)
		}
		o.sizes = append(o.sizes, n)
	}
	for name := range strings.SplitSeq(*scenarios, ",") {
		if !slices.Contains(allScenarios(), name) {
			return o, fmt.Errorf("-scenarios: %q is none of %v: %w", name, allScenarios(), errUsage)
		}
		o.scenarios = append(o.scenarios, name)
	}
	return o, o.agent.check()
}

func (o options) plays(scenario string) bool { return slices.Contains(o.scenarios, scenario) }
