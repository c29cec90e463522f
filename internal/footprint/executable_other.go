//go:build !linux

package footprint

// unmapExecutable does nothing: agents run on Linux.
func unmapExecutable() error { return nil }
