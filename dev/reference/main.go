// Command reference writes the page about all commands of `fleet`. It is a program of its own, so that `fleet` does not
// contain it.
//
//	cobra commands ─► page ─► docs/cli.md
package main

import (
	"log"
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
)

func main() {
	root := cli.New(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" })
	if err := os.WriteFile(os.Args[1], []byte(page(root)), 0o644); err != nil { //nolint:gosec // a document
		log.SetFlags(0)
		log.Print(err)
		os.Exit(1)
	}
}
