// Command supervisor starts the processes of the embedded control planes and ends them when its caller ends. See
// dev/plane/supervise.
package main

import (
	"fmt"
	"os"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fleet-plane-supervisor DATA-DIRECTORY   (reads requests from stdin; started by dev/plane)")
		os.Exit(2)
	}
	if err := supervise.Main(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "fleet-plane-supervisor:", err)
	}
	supervise.KillOwnGroup()
}
