// Command demo shows how clusters of Cluster API join the hub. It starts a hub with the core of Cluster API, a machine host
// and the machine provider. Then it creates two clusters of one ClusterClass, one of them joining with a manifest as if the
// hub could not reach it, delivers a Bundle to both, scales a MachineDeployment, and deletes a cluster. It prints each step as
// a command with its duration.
//
// make demo-capi runs until Ctrl-C. make demo-capi ONCE=1 ends after the deletion.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// options holds the command's flags.
type options struct {
	once     bool
	binaries string
	timeout  time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(os.Stdout).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func command(out io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "demo",
		Short:         "Create two clusters with Cluster API, which join the hub, get a Bundle, are scaled and deleted",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, out) },
	}
	cmd.Flags().BoolVar(&o.once, "once", false, "exit after the deletion instead of running until Ctrl-C")
	cmd.Flags().StringVar(&o.binaries, "binaries", "bin", "directory of the executables fleetcontroller and fleetagent")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit of the steps, without the time to build and start the control plane")
	return cmd
}
