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

	"github.com/fleet-hub/fleet/e2e/bench/agentalone"
	"github.com/fleet-hub/fleet/e2e/bench/expiry"
	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// The scenarios, in the order in which they run on one hub. All but the first need the clusters of the first.
const (
	registration = "registration"
	single       = "single"
	next         = "next"
	restart      = "restart"
	deliver      = "deliver"
	change       = "change"
	fleetOf      = "join-fleet"
	many         = "many"
	standingBy   = "standby"
	idle         = "idle"
	herd         = "herd"
	expiring     = "expiry"
	agentAlone   = "agent" // on its own hub with a downstream cluster
)

// errUsage means that the flags or arguments are wrong.
var errUsage = errors.New("run with -h to see the usage")

// options are the flags.
type options struct {
	sizes     []int
	atOnce    int
	first     int
	singles   int
	step      int
	spread    int // number of workspaces
	growth    string
	profiles  string
	readers   string // of Contents
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
	agent     agentalone.Settings
	expiry    expiry.Times
	// downstreams are the downstream clusters of scenario agent.
	downstreams []string
}

func allScenarios() []string {
	return []string{registration, single, next, restart, deliver, change, many, standingBy, fleetOf, idle, herd, expiring, agentAlone}
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	sizes := flags.String("n", "10,100,1000", "numbers of clusters, each on a hub of its own")
	scenarios := flags.String("scenarios", strings.Join(allScenarios(), ","), "what to play, of "+strings.Join(allScenarios(), ", ")+"; all others need registration, but agent does not")
	flags.IntVar(&o.atOnce, "at-once", 20, "number of agents that register at the same time")
	flags.IntVar(&o.first, "first", 100, "scenario next: number of clusters that register last and are compared with the first ones")
	flags.IntVar(&o.spread, "workspaces", 1, "number of workspaces, each with a token, among which the clusters are divided; scenarios after restart need 1")
	flags.IntVar(&o.step, "step", 1000, "number of clusters between two points of the growth curve")
	flags.StringVar(&o.growth, "growth", "", "file for the growth curve of the largest run, as JSON; it is written after each point")
	flags.StringVar(&o.profiles, "profiles", "", "directory for processor profiles of the API server and the controller, taken when the first and the last clusters register, and when a Bundle is delivered")
	flags.StringVar(&o.readers, "content-readers", "", "controller.contentReaders of charts/fleet; empty: its default")
	flags.IntVar(&o.singles, "singles", 20, "scenario single: number of clusters that register one after another")
	flags.IntVar(&o.manyOf, "bundles", 20, "scenarios many and standby: number of Bundles for all clusters")
	flags.IntVar(&o.fleet, "fleet", 50, "scenario join-fleet: number of Bundles for all clusters")
	flags.DurationVar(&o.checkin, "checkin", 20*time.Second, "scenarios idle and herd: interval between two heartbeats; other scenarios use the agents' default")
	flags.DurationVar(&o.idleFor, "idle-for", time.Minute, "scenario idle: duration of the count")
	flags.DurationVar(&o.outage, "outage", 2*time.Minute, "scenario herd: duration of the API server's outage")
	flags.DurationVar(&o.quiet, "quiet", 10*time.Second, "duration without writes that ends a count")
	flags.DurationVar(&o.patience, "patience", 20*time.Minute, "time limit of a step")
	flags.StringVar(&o.binaries, "binaries", "", "directory of fleetcontroller and fleetagent; empty: build them")
	flags.StringVar(&o.logs, "logs", "", "directory in which the logs of all components are kept")
	o.agent.Bind(flags)
	o.expiry.Bind(flags)
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("parsing the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: %w", flags.Arg(0), errUsage)
	}
	if err := o.check(); err != nil {
		return o, err
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("invalid flag -n: %q is not a number of clusters: %w", text, errUsage)
		}
		o.sizes = append(o.sizes, n)
	}
	for name := range strings.SplitSeq(*scenarios, ",") {
		if !slices.Contains(allScenarios(), name) {
			return o, fmt.Errorf("invalid flag -scenarios: unknown scenario %q, want one of %v: %w", name, allScenarios(), errUsage)
		}
		if o.spread > 1 && !slices.Contains([]string{registration, single, next, restart}, name) {
			return o, fmt.Errorf("invalid flag -workspaces: scenario %s needs all clusters in one workspace: %w", name, errUsage)
		}
		o.scenarios = append(o.scenarios, name)
	}
	return o, o.agent.Check(errUsage)
}

// check checks the flags that no other flag concerns.
func (o options) check() error {
	switch {
	case o.step < 1:
		return fmt.Errorf("invalid flag -step: %d is not a number of clusters: %w", o.step, errUsage)
	case o.spread < 1:
		return fmt.Errorf("invalid flag -workspaces: %d is not a number of workspaces: %w", o.spread, errUsage)
	case !slices.Contains([]string{"", env.ContentReadersAgents, env.ContentReadersServiceAccounts}, o.readers):
		return fmt.Errorf("invalid flag -content-readers: %q is neither %s nor %s: %w", o.readers, env.ContentReadersAgents, env.ContentReadersServiceAccounts, errUsage)
	}
	return nil
}

// inWorkspaces says how many workspaces there are, if there are several.
func (o options) inWorkspaces() string {
	if o.spread == 1 {
		return ""
	}
	return fmt.Sprintf(" in %d workspaces", o.spread)
}

func (o options) plays(scenario string) bool { return slices.Contains(o.scenarios, scenario) }
