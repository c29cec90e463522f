// Command demo runs the whole service on one machine, without containers. It starts a hub and two clusters,
// registers each cluster (the hub's own too) in a different way, delivers two Bundles to all three clusters, and
// rolls out a change of one Bundle partition by partition. It registers clusters with the command line `fleet`, and prints
// each command with its output.
//
// make demo runs until Ctrl-C. make demo ONCE=1 ends after success with exit code 0, or after the first failure
// with exit code 1.
package main

import (
	"context"
	"errors"
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
	once       bool
	output     string
	binaries   string
	withParent bool
	timeout    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop ran already
	}
}

func command(out, progress io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "demo",
		Short:         "Start a hub and two clusters, register them in three ways, and deliver two Bundles to each",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.output != "table" && o.output != "json" {
				return fmt.Errorf("unknown --output %q: use table or json", o.output)
			}
			ctx := cmd.Context()
			if o.withParent {
				var cancel context.CancelFunc
				ctx, cancel = untilOrphaned(ctx)
				defer cancel()
			}
			return run(ctx, o, out, progress)
		},
	}
	cmd.Flags().BoolVar(&o.once, "once", false, "exit after the rollout instead of running until Ctrl-C")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "output format: table or json")
	cmd.Flags().StringVar(&o.binaries, "binaries", "bin", "directory of the executables: fleetcontroller, fleetagent and fleet with its plugins")
	cmd.Flags().BoolVar(&o.withParent, "with-parent", false, "exit when the parent process ends")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit of the demo, without the time to build and start the control planes")
	return cmd
}

// errOrphaned is the cause when the demo ends because its parent process has ended.
var errOrphaned = errors.New("the process that started the demo has ended")

// untilOrphaned returns a context that ends when the parent process ends. When make is killed, the demo stops too
// and cleans up.
func untilOrphaned(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel(errOrphaned)
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
