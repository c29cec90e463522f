// Command podrunner runs the pods of a lab machine's cluster. See dev/machines/pods.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleet-hub/fleet/dev/machines/pods"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := pods.Command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", pods.Name, err)
		os.Exit(1)
	}
}
