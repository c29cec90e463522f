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

// Mark is by what a lab's traces on the machine are known.
type Mark struct {
	// Number is in the names of its devices, cgroups and lock.
	Number int `json:"number"`
	// Dir is its data folder, which its processes and mounts name.
	Dir string `json:"dir"`
}

// Traces are what there is of a lab on this machine, sorted: processes, devices, cgroups, mounts, folders. Of one
// that has ended there is nothing.
func (m Mark) Traces() ([]string, error) {
	p := &place{number: m.Number, dir: m.Dir}
	var found []string
	for _, pattern := range []string{
		filepath.Join(devices, p.bridge()), filepath.Join(devices, p.cable("*")), filepath.Join(cgroupMount, p.cgroup("*")),
		filepath.Join(cgroupMount, "*", p.cgroup("*")), lockFile(lockFolder, m.Number), m.Dir,
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("looking for %s: %w", pattern, err)
		}
		found = append(found, paths...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("looking for mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, m.Dir) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	for _, file := range commands {
		// A process that has ended meanwhile is none.
		if command, err := os.ReadFile(file); err == nil && bytes.Contains(command, []byte(m.Dir)) {
			found = append(found, "process "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	slices.Sort(found)
	return found, nil
}
