// Package main is the supervisor of the embedded control planes: the process that starts them, and
// ends them with its caller. See internal/plane/supervise.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleet-hub/fleet/internal/plane/supervise"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fleet-plane-supervisor DATA-FOLDER   (requests on stdin; started by internal/plane)")
		os.Exit(2)
	}
	in, stop := io.Pipe()
	go func() {
		_, err := io.Copy(stop, os.Stdin)
		_ = stop.CloseWithError(err) // nil means end of file
	}()
	// A write to the pipe of a caller that is gone must be an error, not the end: there is still the
	// cleaning up to do. Not signal.Ignore, which the children would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		_ = stop.Close()
	}()
	if err := supervise.Serve(in, os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "fleet-plane-supervisor:", err)
	}
	supervise.KillOwnGroup()
}
