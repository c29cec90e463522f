// Command fleetagent runs the agent of a downstream cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleet-hub/fleet/internal/cmd/agent"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/deploy/source"
)

func main() {
	source.LimitDownloads()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := agent.New(env.OS, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		env.Fail(os.Stderr, env.TerminationLog, "fleetagent", err)
		os.Exit(1)
	}
}
