//go:build linux

// Command lab runs one-node Kubernetes clusters with real pods on this machine, to try charts and images as users
// get them. It needs root. See dev/lab/nodes.
//
//	lab up hub east west ─► lab serve, detached, runs them ─► lab down
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

func main() {
	if code, played := nodes.Role(os.Args, os.Stderr); played {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
