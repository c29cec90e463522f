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
	fileControllers = "cgroup.controllers" // of version 2: what there is
	fileSubtree     = "cgroup.subtree_control"
)

// hierarchies are the folders in which each node has a cgroup: all hierarchies of version 1, or the one of
// version 2.
func hierarchies(mount string) []string {
	if exists(filepath.Join(mount, fileControllers)) {
		return []string{mount}
	}
	entries, err := os.ReadDir(mount)
	if err != nil {
		return nil // createCgroups says so
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() { // others are symbolic links: cpu,cpuacct
			found = append(found, filepath.Join(mount, entry.Name()))
		}
	}
	return found
}

// createCgroups makes a cgroup of this path in all hierarchies, with all controllers.
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
			return fmt.Errorf("making cgroup %s: %w", folder, err)
		}
		// A cpuset of version 1 is born without processors and memory, and nothing can run in it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(filepath.Join(hierarchy, file), filepath.Join(folder, file)); err != nil {
				return fmt.Errorf("making cgroup %s: %w", folder, err)
			}
		}
	}
	return nil
}

// inherit copies a setting of version 1 to a new cgroup.
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

// delegate turns all controllers of version 2 on for the cgroups below the root.
func delegate(mount string) error {
	content, err := os.ReadFile(filepath.Join(mount, fileControllers))
	if err != nil {
		return fmt.Errorf("reading the cgroup controllers: %w", err)
	}
	var failed error
	for _, controller := range strings.Fields(string(content)) {
		// One by one: one that cannot be delegated should not keep the others from being.
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
