//go:build !linux

// Command lab runs one-node Kubernetes clusters with real pods. It supports Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "lab: nodes with real pods need Linux, and root; make demo runs anywhere")
	os.Exit(1)
}
