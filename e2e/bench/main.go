// Command bench measures the costs of clusters on a hub. It uses a real API server, the real controller with the
// chart's defaults, and simulated agents (package swarm).
//
//	make bench N=100
//	go run ./e2e/bench -n 100 -scenarios registration,single > figures.json
//
// Standard output is one JSON document. Standard error shows the progress. docs/developing/benchmarks.md explains each
// figure. The exit code shows whether everything was measured, not how fast it was.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/fleet-hub/fleet/e2e/bench/machine"
)

// garbagePercent is GOGC of this process. Garbage collection for the simulated agents should not take time from
// the hub on the same machine.
const garbagePercent = 400

func main() {
	debug.SetGCPercent(garbagePercent)
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // of clients whose hub is gone
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	clock := time.Now //nolint:forbidigo // the measurement's one clock is made here
	if len(args) == 1 && args[0] == machine.OnlySpeed {
		_, err := fmt.Fprintln(out, machine.SpeedHere(clock))
		return err
	}
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	return measureAll(ctx, o, clock, out, progress)
}
