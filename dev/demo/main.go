// Command demo shows the whole job on one machine, without containers: a hub, and two clusters that
// join it, each cluster by another way in, two Bundles that reach all three, and a change of one that is rolled out
// partition by partition.
//
//	make demo          stays up until Ctrl-C
//	make demo ONCE=1   ends after success, with code 0, or after the first failure, with code 1
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

// options are the flags.
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
		Short:         "A hub and two clusters, three ways in, two Bundles on each",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.output != "table" && o.output != "json" {
				return fmt.Errorf("--output is %q: use table or json", o.output)
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
	cmd.Flags().BoolVar(&o.once, "once", false, "end after the Bundles are ready instead of staying up")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "form of the result: table or json")
	cmd.Flags().StringVar(&o.binaries, "binaries", "bin", "folder with fleetcontroller and fleetagent")
	cmd.Flags().BoolVar(&o.withParent, "with-parent", false, "end when the process that started this one is gone")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "give up after this long; building the control planes for the first time is not counted")
	return cmd
}

// errOrphaned is why a demo ends whose parent is gone.
var errOrphaned = errors.New("the process that started the demo is gone")

// untilOrphaned ends its context when this process is handed to another parent. A killed make leaves
// nothing behind this way.
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
