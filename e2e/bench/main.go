// Command bench measures what clusters cost a hub: a real API server and the real controller with the chart's
// defaults, and agents that are played (package swarm).
//
//	make bench N=100
//	go run ./e2e/bench -n 100 -scenarios registration,single > figures.json
//
// Standard output is one JSON document, standard error reports progress. docs/developing/benchmarks.md explains each
// figure. The exit code tells whether everything could be measured, never how fast it was.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// garbagePercent is GOGC of this process: what the played agents leave behind is not to take time from the hub, which
// shares the machine with them.
const garbagePercent = 400

func main() {
	debug.SetGCPercent(garbagePercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	clock := time.Now //nolint:forbidigo // the measurement's one clock is made here
	return measureAll(ctx, o, clock, out, progress)
}
