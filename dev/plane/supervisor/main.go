// Package main is the supervisor of the embedded control planes: the process that starts them, and
// ends them with its caller. See dev/plane/supervise.
package main

import (
	"fmt"
	"os"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fleet-plane-supervisor DATA-FOLDER   (requests on stdin; started by dev/plane)")
		os.Exit(2)
	}
	if err := supervise.Main(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "fleet-plane-supervisor:", err)
	}
	supervise.KillOwnGroup()
}
