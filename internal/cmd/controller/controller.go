// Package controller implements the command fleetcontroller: the controllers of the hub. They run in one process,
// unless shards of the delivery run in their own processes.
//
//	flags, environment ─► health and metrics ─► Check ─► leader election ─► the controllers work
//	                                                  └► caches are filled ─┘
package controller

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/internal/cmd/companion"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/footprint"
	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/leader"
	"github.com/fleet-hub/fleet/internal/logging"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/version"
)

// Lease is the name of the lease that the leading replica holds in the system namespace, after two older leases. Two
// controllers with different lease names work against each other.
const Lease = names.ControllerLease

// garbagePercent is GOGC of the controllers. While clusters join, less garbage between the objects that stay leaves less
// free space that cannot be returned.
const garbagePercent = 50

// deployment begins the names of the Deployments of the controllers and of their shards.
const deployment = "fleet-controller"

// leaseOf returns the name of the lease for a process, and the names of the leases to hold before it.
func leaseOf(options env.Controller) (name string, before []string) {
	if options.Shard != "" {
		return names.ShardLease(options.Shard), nil
	}
	return Lease, []string{names.CleanupLease, names.DeliveryLease}
}

// also returns the controllers in addition to those of the registration.
func also() []agentmanagement.RegisterFunc {
	return []agentmanagement.RegisterFunc{bundles.Register}
}

// New returns the command. It writes its log to out.
func New(environment env.Environment, out io.Writer) *cobra.Command {
	return program(environment, out, run)
}

func program(environment env.Environment, out io.Writer, work worker) *cobra.Command {
	var options env.Controller
	work = withoutProxy(environment, work)
	command := &cobra.Command{
		Use:   "fleetcontroller",
		Short: "Registers clusters with this hub and delivers bundles to them",
		Args:  cobra.NoArgs,
		// main prints the error once, without the usage.
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.Complete(command.Flags(), environment); err != nil {
				return err
			}
			return unlessElsewhere(work)(command.Context(), options, out)
		},
	}
	options.Bind(command.Flags())
	companion.IgnoreFlags(command.Flags())
	addOthers(command, environment, out, work)
	return command
}

// run works until ctx ends. The end of ctx is not an error.
func run(ctx context.Context, options env.Controller, out io.Writer) error {
	lines := logging.Options{Writer: out, Debug: options.Debug, Level: options.DebugLevel, JSON: options.LogFormat == env.LogJSON}
	log := logging.New(lines)
	logging.Bridge(log, lines)

	state := &health.State{}
	lease, _ := leaseOf(options)
	process, counted := metrics.NewProcess(version.Version, lease, !options.LeaderElect), metrics.NewHub()
	process.Registry().MustRegister(counted)
	listening, err := health.Start(ctx, health.Options{
		HealthAddress: options.HealthAddress, MetricsAddress: options.MetricsAddress,
		ProfilesAddress: options.ProfilesAddress, Profiles: profiles(),
		State: state, Gatherer: process.Registry(), Log: log,
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	footprint.Collect(garbagePercent)
	go footprint.Keep(running)
	log.Info("starting", "version", version.Version, "shard", options.Shard, "health", listening.Health, "metrics", listening.Metrics)
	if listening.Profiles != "" {
		log.Info("serving profiles", "profiles", listening.Profiles)
	}

	own, err := kube.LoadOwn(options.Kubeconfig)
	if err != nil {
		return err
	}
	process.OwnHost(own.Config.Host)
	shared := hub.Options{
		Own: own, Env: options, Version: version.Version, Log: log, Metrics: counted, Registry: process.Registry(),
	}
	state.SetReady(false, "checking the hub's API server, CRDs and configuration")
	loaded, err := hub.Check(ctx, shared, hub.StartTimeout)
	if err != nil {
		return unlessEnded(ctx, fmt.Errorf("refusing to start: %w", err))
	}
	shared.Config = &loaded
	state.SetReady(false, "waiting for the lease")
	return unlessEnded(ctx, lead(ctx, shared, state))
}

// lead works while this replica is the leader. A standby replica fills its caches and counts as ready.
func lead(ctx context.Context, shared hub.Options, state *health.State) error {
	fence := leader.NewFence(time.Now) //nolint:forbidigo // also the clock of the election
	guarded := shared
	guarded.Own.Config, guarded.Guard = fence.Guard(kube.RelistAfterOutage(shared.Own.Config)), fence.Guard
	options := agentmanagement.Options{
		Options:   guarded,
		Also:      also(),
		OnStarted: func() { state.SetReady(true, "leading") },
	}
	if !shared.Env.LeaderElect {
		state.SetReady(false, "leading, filling the caches")
		return agentmanagement.Run(ctx, options)
	}
	s := newStandby(ctx, options)
	defer s.end(nil)
	elected := election(shared, state)
	elected.Fence, elected.OnStateRestored = fence, func() { s.end(leader.ErrStateRestored) }
	return s.result(leader.Lead(s.election, elected, func(ctx context.Context) error {
		state.SetReady(false, "leading, filling the caches")
		return s.work(ctx)
	}))
}

// election returns the options of an election that reports in state and log whether another replica leads, or why
// none does.
func election(shared hub.Options, state *health.State) leader.Options {
	lease, before := leaseOf(shared.Env)
	return leader.Options{
		Config:        shared.Own.Config,
		Namespace:     shared.Env.Namespace,
		Name:          lease,
		Before:        before,
		Identity:      shared.Env.Identity,
		LeaseDuration: shared.Env.Election.LeaseDuration,
		RenewDeadline: shared.Env.Election.RenewDeadline,
		RetryPeriod:   shared.Env.Election.RetryPeriod,
		Log:           shared.Log,
		Predecessors:  leader.EarlierProcesses(shared.Env.Identity, deployment),
		OnStandby:     func() { state.SetReady(true, "standing by") },
		OnBlocked: func(lease string, err error) {
			reason := leader.Blocked(shared.Env.Namespace, lease, "this controller", "reconciles nothing", err)
			if _, before := state.Ready(); before != reason {
				state.SetReady(false, reason)
				shared.Log.Error("the lease cannot be acquired", "error", reason)
			}
		},
	}
}

// unlessEnded returns nil if work stopped because ctx ended.
func unlessEnded(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return nil //nolint:nilerr // see above
	}
	return err
}
