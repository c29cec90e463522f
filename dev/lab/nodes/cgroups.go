//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const cgroupMount = "/sys/fs/cgroup"

// Files of cgroups.
const (
	fileControllers = "cgroup.controllers" // version 2 only: the available controllers
	fileSubtree     = "cgroup.subtree_control"
)

// hierarchies returns the directories in which each node has a cgroup: all hierarchies of cgroup version 1, or
// the one of version 2.
func hierarchies(mount string) []string {
	if exists(filepath.Join(mount, fileControllers)) {
		return []string{mount}
	}
	entries, err := os.ReadDir(mount)
	if err != nil {
		return nil // createCgroups reports the missing mount
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() { // symbolic links such as cpu,cpuacct are skipped
			found = append(found, filepath.Join(mount, entry.Name()))
		}
	}
	return found
}

// createCgroups creates a cgroup with this path and all controllers in every hierarchy.
func createCgroups(mount, path string) error {
	all := hierarchies(mount)
	if len(all) == 0 {
		return fmt.Errorf("%w: no cgroups are mounted at %s", ErrMissing, mount)
	}
	if exists(filepath.Join(mount, fileControllers)) {
		if err := delegate(mount); err != nil {
			return err
		}
	}
	for _, hierarchy := range all {
		folder := filepath.Join(hierarchy, path)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("creating cgroup %s: %w", folder, err)
		}
		// In version 1 a new cpuset has no processors and no memory nodes, so no process can join it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(filepath.Join(hierarchy, file), filepath.Join(folder, file)); err != nil {
				return fmt.Errorf("creating cgroup %s: %w", folder, err)
			}
		}
	}
	return nil
}

// inherit copies a version 1 setting to a new cgroup.
func inherit(from, to string) error {
	if exists(filepath.Join(filepath.Dir(from), fileControllers)) || !exists(from) || !exists(to) {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// delegate enables all controllers of version 2 for the cgroups below the root.
func delegate(mount string) error {
	content, err := os.ReadFile(filepath.Join(mount, fileControllers))
	if err != nil {
		return fmt.Errorf("reading the cgroup controllers: %w", err)
	}
	var failed error
	for _, controller := range strings.Fields(string(content)) {
		// Each controller is written separately, so that one that cannot be delegated does not prevent the
		// others.
		if err := os.WriteFile(filepath.Join(mount, fileSubtree), []byte("+"+controller), 0o644); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	enabled, err := os.ReadFile(filepath.Join(mount, fileSubtree))
	if err != nil {
		return fmt.Errorf("reading the delegated cgroup controllers: %w", err)
	}
	for _, needed := range []string{"cpu", "memory", "pids"} {
		if !strings.Contains(" "+strings.Join(strings.Fields(string(enabled)), " ")+" ", " "+needed+" ") {
			return fmt.Errorf("%w: cgroup controller %s cannot be delegated; in a container, move all processes into a cgroup below the root first: %w", ErrMissing, needed, failed)
		}
	}
	return nil
}
