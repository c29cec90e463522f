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

// goodbye is how long the kernel may take to let go of cgroups whose processes it has just ended.
const goodbye = 10 * time.Second

// sweep removes everything of a lab whose processes have ended, and gives its number back. What is gone already is
// no error; and where somebody else has swept already, the number may be another lab's now.
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

// clean removes everything of a lab but its number.
func (p *place) clean() error {
	return errors.Join(p.removeDevices(), removeCgroups(cgroupMount, p.cgroup("*")), os.RemoveAll(p.dir))
}

// removeDevices removes the bridge and what is still plugged into it: a node's cable ends with the node, but in the
// kernel's own time.
func (p *place) removeDevices() error {
	all, err := os.ReadDir(devices)
	if err != nil {
		return fmt.Errorf("looking for network devices: %w", err)
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

// removeCgroups removes the cgroups of a pattern in all hierarchies.
func removeCgroups(mount, pattern string) error {
	var cgroups []string
	for _, hierarchy := range hierarchies(mount) {
		found, err := filepath.Glob(filepath.Join(hierarchy, pattern))
		if err != nil {
			return fmt.Errorf("looking for cgroups: %w", err)
		}
		cgroups = append(cgroups, found...)
	}
	var failed error
	for _, root := range cgroups {
		failed = errors.Join(failed, removeTree(root))
	}
	return failed
}

// removeTree removes a cgroup with all below it, from the leaves up. Those that are busy are tried again: processes that were killed
// leave theirs only when the kernel has buried them.
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
			return nil // without one that has gone while we looked
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
