//go:build !linux

package main

import "github.com/spf13/cobra"

// addNodeComponents adds nothing: nodes with real pods are Linux only.
func addNodeComponents(map[string]func() *cobra.Command) {}
