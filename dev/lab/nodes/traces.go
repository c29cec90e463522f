//go:build linux

package nodes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mark identifies a lab's traces on the machine.
type Mark struct {
	// Number is part of the names of the lab's devices, cgroups and lock.
	Number int `json:"number"`
	// Dir is the lab's data directory. Command lines and mounts contain its path.
	Dir string `json:"dir"`
}

// Traces returns what exists of a lab on this machine, sorted: processes, devices, cgroups, mounts and
// directories. For a lab that has ended it is empty.
func (m Mark) Traces() ([]string, error) {
	p := &place{number: m.Number, dir: m.Dir}
	var found []string
	for _, pattern := range []string{
		filepath.Join(devices, p.bridge()), filepath.Join(devices, p.cable("*")), filepath.Join(cgroupMount, p.cgroup("*")),
		filepath.Join(cgroupMount, "*", p.cgroup("*")), lockFile(lockFolder, m.Number), m.Dir,
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("finding %s: %w", pattern, err)
		}
		found = append(found, paths...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, m.Dir) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	for _, file := range commands {
		// A process that has ended meanwhile is skipped.
		if command, err := os.ReadFile(file); err == nil && bytes.Contains(command, []byte(m.Dir)) {
			found = append(found, "process "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	slices.Sort(found)
	return found, nil
}
