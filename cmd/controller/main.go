// Command fleetcontroller runs the controllers of a hub.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleet-hub/fleet/internal/cmd/controller"
	"github.com/fleet-hub/fleet/internal/cmd/env"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command := controller.New(env.OS, os.Stderr)
	err := env.NoticeSilence(env.OS, os.Setenv)
	if err == nil {
		err = command.ExecuteContext(ctx)
	}
	stop()
	if err != nil {
		env.Fail(os.Stderr, env.TerminationLog, command.Name(), err)
		os.Exit(1)
	}
}
