package controller

import (
	"context"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/internal/cmd/companion"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/logging"
)

// Other charts split the work between several containers that all start with this image. The container that has the
// agents' settings does all the work, and the others idle.
//
//	fleetcontroller                             all controllers; idle if the pod has an agentmanagement container
//	fleetcontroller --shard-id=ID               the delivery of objects with this shard label
//	fleetcontroller agentmanagement             all controllers, without ports: the first container uses them
//	fleetcontroller cleanup, gitjob, helmops    idle

// worker runs a controller with its options until ctx ends.
type worker func(ctx context.Context, options env.Controller, out io.Writer) error

// addOthers adds the other commands to the program.
func addOthers(program *cobra.Command, environment env.Environment, out io.Writer, work worker) {
	program.AddCommand(agentManagement(environment, out, work))
	companion.Add(program, out,
		companion.Command{Use: "cleanup", Why: "the controllers clean up what they made"},
		companion.Command{Use: "gitjob", Why: "GitRepos are not acted on"},
		companion.Command{Use: "helmops", Why: "HelmOps are not acted on"},
	)
}

// agentManagement returns the command of the container that has the agents' settings.
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
			options.Elsewhere = false // this container does the work
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

// unlessElsewhere works unless another container of the pod does all the work.
func unlessElsewhere(work worker) worker {
	return func(ctx context.Context, options env.Controller, out io.Writer) error {
		if options.Elsewhere && options.Shard == "" {
			return standAside(ctx, options, out, "`fleetcontroller agentmanagement` of this pod does everything")
		}
		return work(ctx, options, out)
	}
}

// withoutProxy makes the work reach the hub's own API server without the proxy for downstream clusters.
func withoutProxy(environment env.Environment, work worker) worker {
	return func(ctx context.Context, options env.Controller, out io.Writer) error {
		if err := env.OwnDirectly(environment, os.Setenv); err != nil { // before a client is created
			return err
		}
		return work(ctx, options, out)
	}
}

// standAside keeps an idle pod alive and ready, without metrics.
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
	log.Info("this process has no work and only stays running", "command", "fleetcontroller", "health", listening.Health, "metrics", listening.Metrics, "because", because)
	<-ctx.Done()
	return nil
}
