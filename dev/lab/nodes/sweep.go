//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// goodbye limits the wait until the kernel releases the cgroups of killed processes.
const goodbye = 10 * time.Second

// sweep removes everything of a lab whose processes have ended, and releases its number. Parts that are removed
// already are not an error. If another process has swept the lab already, the number may belong to another lab,
// and sweep does nothing.
func (p *place) sweep() error {
	if !same(p.lock) {
		return nil
	}
	err := p.clean()
	if err == nil {
		p.release()
	}
	return err
}

// clean removes everything of a lab except its number.
func (p *place) clean() error {
	return errors.Join(p.removeDevices(), removeCgroups(cgroupMount, p.cgroup("*")), os.RemoveAll(p.dir))
}

// removeDevices removes the bridge and the remaining node devices. The kernel removes a node's device some time
// after the node has ended.
func (p *place) removeDevices() error {
	all, err := os.ReadDir(devices)
	if err != nil {
		return fmt.Errorf("listing network devices: %w", err)
	}
	var failed error
	for _, device := range all {
		name := device.Name()
		if name != p.bridge() && !strings.HasPrefix(name, p.cable("")) {
			continue
		}
		if err := ip("link", "delete", name); err != nil && exists(filepath.Join(devices, name)) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// removeCgroups removes the cgroups that match the pattern in all hierarchies.
func removeCgroups(mount, pattern string) error {
	var cgroups []string
	for _, hierarchy := range hierarchies(mount) {
		found, err := filepath.Glob(filepath.Join(hierarchy, pattern))
		if err != nil {
			return fmt.Errorf("listing cgroups: %w", err)
		}
		cgroups = append(cgroups, found...)
	}
	var failed error
	for _, root := range cgroups {
		failed = errors.Join(failed, removeTree(root))
	}
	return failed
}

// removeTree removes a cgroup and all cgroups below it, leaves first. It retries busy ones: a killed process
// leaves its cgroup only when the kernel has finished it.
func removeTree(root string) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.NewTimer(goodbye)
	defer timeout.Stop()
	for {
		var folders []string
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return nil // a cgroup that was removed meanwhile is skipped
		})
		for _, folder := range slices.Backward(folders) {
			err = errors.Join(err, gone(os.Remove(folder)))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-timeout.C:
			return fmt.Errorf("removing cgroup %s: %w", root, err)
		}
	}
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
