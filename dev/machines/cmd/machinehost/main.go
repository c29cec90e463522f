// Command machinehost is a machine host: a process that plays a hypervisor for the Cluster API provider in
// dev/machines. See dev/machines/host.
package main

import (
	"fmt"
	"os"

	"github.com/fleet-hub/fleet/dev/machines/host/programs"
)

func main() {
	code, found := programs.Run(os.Args)
	if !found {
		fmt.Fprintln(os.Stderr, "call this program by the name "+programs.Host)
		code = 2
	}
	os.Exit(code)
}
