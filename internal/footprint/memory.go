package footprint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Memory is how much memory the process and its container use, in bytes. Zero means unknown.
type Memory struct {
	// Resident is all memory of the process (VmRSS), including pages of its executable, which the kernel can drop.
	Resident uint64
	// Anonymous is the part that is not backed by files (RssAnon). Only the process can return it.
	Anonymous uint64
	// Peak is the most that Resident ever was (VmHWM).
	Peak uint64
	// WorkingSet is what the kubelet and `kubectl top` report of the container: its usage without the cached files
	// that were not used lately. It includes the executable while it is in use.
	WorkingSet uint64
	// ContainerPeak is the most that the container ever used, including all cached files.
	ContainerPeak uint64
}

// Places of the figures below the root.
const (
	statusFile  = "proc/self/status"
	cgroupsFile = "proc/self/cgroup"
	cgroupRoot  = "sys/fs/cgroup"
)

// Read reads the figures below the root directory of the file system. Figures of the container are missing outside of
// containers and where the kernel does not provide them.
func Read(root fs.FS) (Memory, error) {
	text, err := fs.ReadFile(root, statusFile)
	if err != nil {
		return Memory{}, fmt.Errorf("reading the memory of the process: %w", err)
	}
	m := Memory{}
	for name, into := range map[string]*uint64{"VmRSS": &m.Resident, "RssAnon": &m.Anonymous, "VmHWM": &m.Peak} {
		if *into, err = kilobytes(text, name); err != nil {
			return Memory{}, err
		}
	}
	groups, err := fs.ReadFile(root, cgroupsFile)
	if err != nil {
		return m, nil //nolint:nilerr // a kernel without cgroups
	}
	return m, readContainer(root, groups, &m)
}

// kilobytes returns a line of a status file in bytes: "VmRSS:	 74620 kB".
func kilobytes(status []byte, name string) (uint64, error) {
	value, err := field(status, name+":")
	if err != nil {
		return 0, err
	}
	return value * 1024, nil
}

// field returns the number after a name at the beginning of a line, 0 if there is no such line.
func field(text []byte, name string) (uint64, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != name {
			continue
		}
		value, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parsing %s: %w", strings.TrimSuffix(name, ":"), err)
		}
		return value, nil
	}
	return 0, nil
}

// hierarchy names the files of one version of cgroups.
type hierarchy struct {
	usage, peak, inactive string
}

// readContainer reads the figures of the cgroup that limits the process's memory.
func readContainer(root fs.FS, groups []byte, m *Memory) error {
	folder, files := locate(root, groups)
	if folder == "" {
		return nil
	}
	usage, err := number(root, path.Join(folder, files.usage))
	if err != nil || usage == 0 {
		return err
	}
	if m.ContainerPeak, err = number(root, path.Join(folder, files.peak)); err != nil {
		return err
	}
	stat, err := fs.ReadFile(root, path.Join(folder, "memory.stat"))
	if err != nil {
		return nil //nolint:nilerr // without it, the working set is unknown
	}
	inactive, err := field(stat, files.inactive)
	m.WorkingSet = usage - min(usage, inactive)
	return err
}

// locate returns the directory of the process's memory cgroup, or "". A container usually sees its own
// cgroup as the root, whatever path /proc reports.
func locate(root fs.FS, groups []byte) (folder string, files hierarchy) {
	v1 := hierarchy{usage: "memory.usage_in_bytes", peak: "memory.max_usage_in_bytes", inactive: "total_inactive_file"}
	v2 := hierarchy{usage: "memory.current", peak: "memory.peak", inactive: "inactive_file"}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		base := cgroupRoot
		switch parts[1] {
		case "":
			files = v2
		case "memory":
			base, files = path.Join(cgroupRoot, "memory"), v1
		default:
			continue
		}
		for _, candidate := range []string{path.Join(base, parts[2]), base} {
			if _, err := fs.Stat(root, path.Join(candidate, files.usage)); err == nil {
				return candidate, files
			}
		}
	}
	return "", files
}

// number reads a file with one number, 0 if the file does not exist.
func number(root fs.FS, name string) (uint64, error) {
	text, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the memory of the container: %w", err)
	}
	value, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing /%s: %w", name, err)
	}
	return value, nil
}
