//go:build linux

// Package nodes starts one-node Kubernetes clusters with real pods on this machine. It uses no container engine
// and downloads only Go modules and Debian packages. It needs root and Linux.
//
//	Start ─► reserve a number ─► bridge, cgroups ─► supervisor ─► a node each (package inside)
//	  Stop, or the end of the caller ─► nodes killed ─► everything removed
//
// A node's network, mount, PID, IPC and UTS namespaces have no names: the kernel removes them, with their
// devices, mounts and processes, when the node's first process ends. The supervisor removes what remains: a
// bridge, cgroups and a directory. If the supervisor is killed, the next lab with the same number removes them.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// Options configures a lab.
type Options struct {
	// Names are the names of the nodes: lower case letters, digits and hyphens. Each node is a cluster.
	Names []string
	// Archives are image archives to import on every node at its start.
	Archives []string
	// LogDir is the directory of the logs, with one subdirectory per node. It is never removed. If it is empty,
	// Start creates a directory, and RemoveLogs removes it.
	LogDir string
	// Progress receives one line per notable step. If it is nil, the lines are dropped.
	Progress func(format string, args ...any)
}

// Lab is a set of nodes in one network.
type Lab struct {
	// Nodes are in the order of Options.Names.
	Nodes []*Node
	// LogDir holds supervisor.log and one directory per node. Stop keeps it.
	LogDir string

	options    Options
	place      *place
	dir        string // data; removed by the supervisor
	supervisor *supervise.Client
	programs   string
	plugins    string
	pause      string // path of the image archive
	clock      func() time.Time
	stop       func() error
	stopping   atomic.Bool
}

// validName limits node names to ten characters: device names have at most 15.
var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,8}[a-z0-9])?$`)

// ErrName means that a node name is invalid or used twice.
var ErrName = errors.New("invalid or duplicate node name: use up to ten lower case letters, digits and hyphens")

func (o Options) validate() error {
	if len(o.Names) == 0 || len(o.Names) > lastNode-firstNode+1 {
		return fmt.Errorf("a lab has between 1 and %d nodes, got %d", lastNode-firstNode+1, len(o.Names))
	}
	seen := map[string]bool{}
	for _, name := range o.Names {
		if seen[name] || !validName.MatchString(name) {
			return fmt.Errorf("%q: %w", name, ErrName)
		}
		seen[name] = true
	}
	for _, archive := range o.Archives {
		if _, err := os.Stat(archive); err != nil {
			return fmt.Errorf("checking an image archive: %w", err)
		}
	}
	return nil
}

// Start starts the nodes and returns when each is ready for pods. ctx limits only the start: the lab ends with
// Stop or with this process. The caller's main, or TestMain, has to call Role first. An error names the component
// and the logs. It wraps ErrMissing if this machine lacks a requirement.
func Start(ctx context.Context, options Options) (*Lab, error) {
	if options.Progress == nil {
		options.Progress = func(string, ...any) {}
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	l, err := prepare(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("preparing the lab: %w", err)
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\nlogs: %s", err, l.LogDir), l.Stop())
	}
	return l, nil
}

// prepare does everything before the first node starts: it installs packages, builds programs, creates
// directories and starts the supervisor.
func prepare(ctx context.Context, options Options) (l *Lab, err error) {
	l = &Lab{options: options, clock: time.Now} //nolint:forbidigo // this is where the clock is made
	if l.plugins, err = Prerequisites(ctx, options.Progress); err != nil {
		return nil, err
	}
	if l.programs, err = build.Kube(ctx, options.Progress); err != nil {
		return nil, err
	}
	if l.LogDir, err = logDir(options.LogDir); err != nil {
		return nil, err
	}
	if l.dir, err = os.MkdirTemp("", "fleet-lab-"); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	if l.pause, err = pauseArchive(ctx, l.dir); err == nil {
		err = l.reachable()
	}
	if err == nil {
		l.place, err = reserve(lockFolder, l.dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	// From here on the supervisor removes everything, even when this process is killed.
	if err := l.launchSupervisor(); err != nil {
		return nil, errors.Join(err, l.place.sweep())
	}
	l.stop = sync.OnceValue(l.end)
	return l, nil
}

// hidden are directories that are private to each node: the host's content is not visible there.
var hidden = []string{"/run/", "/var/run/", "/var/lib/", "/var/log/"} //nolint:gochecknoglobals // a constant, if Go had such ones

// reachable returns an error if the lab needs a directory that is hidden in the nodes.
func (l *Lab) reachable() error {
	for _, path := range append([]string{l.dir, l.LogDir, l.programs, l.pause}, l.options.Archives...) {
		for _, folder := range hidden {
			if strings.HasPrefix(path, folder) {
				return fmt.Errorf("%s is in %s, which is hidden in the nodes: set TMPDIR or XDG_CACHE_HOME to another directory", path, folder)
			}
		}
	}
	return nil
}

func logDir(wanted string) (string, error) {
	if wanted == "" {
		dir, err := os.MkdirTemp("", "fleet-lab-logs-")
		if err != nil {
			return "", fmt.Errorf("creating the log directory: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(wanted)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("creating the log directory: %w", err)
	}
	return dir, nil
}

// Node returns the node with this name, or nil.
func (l *Lab) Node(name string) *Node {
	for _, n := range l.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Gone is closed when the lab has ended for any reason.
func (l *Lab) Gone() <-chan struct{} { return l.supervisor.Gone() }

// Stop ends all nodes and removes everything but LogDir. Further calls return the same result.
func (l *Lab) Stop() error { return l.stop() }

func (l *Lab) end() error {
	l.stopping.Store(true)
	err := l.supervisor.Close()
	// The supervisor has swept already, unless it was killed.
	return errors.Join(err, l.place.sweep())
}

// Mark returns the lab's number and directory. They identify its traces on the machine.
func (l *Lab) Mark() Mark { return Mark{Number: l.place.number, Dir: l.dir} }

// RemoveLogs removes LogDir if Start created it because Options.LogDir was empty.
func (l *Lab) RemoveLogs() error {
	if l.options.LogDir != "" {
		return nil
	}
	return os.RemoveAll(l.LogDir)
}
