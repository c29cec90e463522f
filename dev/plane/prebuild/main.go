// Command prebuild builds what the embedded control planes need, so that the first build does not count against
// the time limit of a test:
//
//	go run ./dev/plane/prebuild
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleet-hub/fleet/dev/plane/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := build.Run(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
