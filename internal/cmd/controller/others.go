package controller

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/internal/cmd/companion"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/logging"
)

// Pods of charts that split the work between containers start with this image too: one of them does everything, the
// one that is told how agents are to run, and the others stand aside.
//
//	fleetcontroller                    everything; nothing where the pod has one of the next
//	fleetcontroller --shard-id=ID      the delivery of what is labelled with that shard
//	fleetcontroller agentmanagement    everything, without ports: those are the first container's
//	fleetcontroller cleanup, gitjob, helmops    nothing
//	fleet cleanup …, fleet migrate …   jobs: nothing, and ends

// worker is what a controller does with its options, until ctx ends.
type worker func(ctx context.Context, options env.Controller, out io.Writer) error

// addOthers adds the commands beside the program itself.
func addOthers(program *cobra.Command, environment env.Environment, out io.Writer, work worker) {
	program.AddCommand(agentManagement(environment, out, work))
	companion.Add(program, out,
		companion.Command{Use: "cleanup", Why: "the controllers clean up what they made"},
		companion.Command{Use: "gitjob", Why: "GitRepos are not acted on"},
		companion.Command{Use: "helmops", Why: "HelmOps are not acted on"},
	)
}

// agentManagement is the container that knows how agents are to run.
func agentManagement(environment env.Environment, out io.Writer, work worker) *cobra.Command {
	var options env.Controller
	command := &cobra.Command{
		Use:    "agentmanagement",
		Short:  "All of fleetcontroller, for pods in which another container has its ports",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.Complete(command.Flags(), environment); err != nil {
				return err
			}
			options.Elsewhere = false // this is the one
			if environment("FLEET_METRICS_BIND_ADDRESS") == "" {
				options.MetricsAddress = "0"
			}
			if environment("FLEET_HEALTHPROBE_BIND_ADDRESS") == "" {
				options.HealthAddress = "0"
			}
			return work(command.Context(), options, out)
		},
	}
	options.Bind(command.Flags())
	companion.IgnoreFlags(command.Flags())
	return command
}

// unlessElsewhere works unless another process does it all.
func unlessElsewhere(work worker) worker {
	return func(ctx context.Context, options env.Controller, out io.Writer) error {
		if options.Elsewhere && options.Shard == "" {
			return standAside(ctx, options, out, "`fleetcontroller agentmanagement` of this pod does everything")
		}
		return work(ctx, options, out)
	}
}

// standAside keeps a pod up that has nothing to do: it is alive, ready, and has no metrics.
func standAside(ctx context.Context, options env.Controller, out io.Writer, because string) error {
	log := logging.New(logging.Options{Writer: out, Debug: options.Debug, Level: options.DebugLevel})
	state := &health.State{}
	state.SetReady(true, because)
	listening, err := health.Start(ctx, health.Options{
		HealthAddress: options.HealthAddress, MetricsAddress: options.MetricsAddress,
		State: state, Gatherer: prometheus.NewRegistry(), Log: log,
	})
	if err != nil {
		return err
	}
	log.Info("nothing to do", "command", "fleetcontroller", "health", listening.Health, "metrics", listening.Metrics, "because", because)
	<-ctx.Done()
	return nil
}

// Jobs is the command `fleet` of the image: the jobs that charts of other implementations start before and after an
// installation, and every day. Anything else it refuses, so that no job that should have done something seems to.
func Jobs(out io.Writer) *cobra.Command {
	command := &cobra.Command{
		Use:           "fleet",
		Short:         "Jobs of other charts, which have nothing to do here",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          noSuchJob,
	}
	cleanup := &cobra.Command{Use: "cleanup", Args: cobra.ArbitraryArgs, RunE: noSuchJob}
	companion.Add(cleanup, out,
		companion.Command{Use: "clusterregistration", Why: "the controllers delete what a newer registration replaces", Ends: true},
		companion.Command{Use: "gitjob", Why: "GitRepos are not acted on", Ends: true},
	)
	migrate := &cobra.Command{Use: "migrate", Args: cobra.ArbitraryArgs, RunE: noSuchJob}
	companion.Add(migrate, out, companion.Command{Use: "gitrepo-helm-url-regex", Why: "GitRepos are not acted on", Ends: true})
	command.AddCommand(cleanup, migrate)
	return command
}

func noSuchJob(command *cobra.Command, args []string) error {
	return fmt.Errorf("%q is none of the jobs of this image: fleet cleanup clusterregistration, fleet cleanup gitjob, fleet migrate gitrepo-helm-url-regex",
		strings.Join(append([]string{command.CommandPath()}, args...), " "))
}
