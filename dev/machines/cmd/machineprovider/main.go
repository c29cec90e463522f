// Command machineprovider runs the machine provider for Cluster API.
package main

import (
	"os"

	"github.com/fleet-hub/fleet/dev/machines/provider"
)

func main() {
	code, _ := provider.Run(append([]string{provider.Program}, os.Args[1:]...), os.Stderr)
	os.Exit(code)
}
