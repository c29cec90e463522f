//go:build linux

// Package nodes gives one-node Kubernetes clusters with real pods on this machine: no container engine, no
// downloads but Go modules and Debian packages. It needs root and Linux.
//
//	Start ─► reserve a number ─► bridge, cgroups ─► supervisor ─► a node each (package inside)
//	  Stop, or the caller's end, however it comes ─► nodes killed ─► everything removed
//
// A node's network, mount, PID, IPC and host name namespaces have no names: the kernel removes them, with
// devices, mounts and processes, when the node's first process ends. What remains, a bridge, cgroups and a
// folder, the supervisor removes; and what a killed supervisor has left, the next lab with that number.
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

// Options say what Start starts.
type Options struct {
	// Names of the nodes: lower case letters, digits and hyphens. Each is a cluster.
	Names []string
	// Archives are image files every node has from the start.
	Archives []string
	// LogDir is where logs go, a folder for each node; it is never removed. Empty means a new folder, which
	// RemoveLogs removes.
	LogDir string
	// Progress receives one line per thing worth knowing while one waits; nil drops them.
	Progress func(format string, args ...any)
}

// Lab is a number of nodes that reach one another.
type Lab struct {
	// Nodes in the order of Options.Names.
	Nodes []*Node
	// LogDir holds supervisor.log and a folder per node; it survives Stop.
	LogDir string

	options    Options
	place      *place
	dir        string // data; the supervisor removes it
	supervisor *supervise.Client
	programs   string
	plugins    string
	pause      string // an archive
	clock      func() time.Time
	stop       func() error
	stopping   atomic.Bool
}

// Names of what has names. Devices have at most 15 characters, which leaves ten for a node's.
var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,8}[a-z0-9])?$`)

// ErrName means that a node cannot have that name.
var ErrName = errors.New("a node's name is of up to ten lower case letters, digits and hyphens, and no other has it")

func (o Options) validate() error {
	if len(o.Names) == 0 || len(o.Names) > lastNode-firstNode+1 {
		return fmt.Errorf("a lab has between one and %d nodes, not %d", lastNode-firstNode+1, len(o.Names))
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
			return fmt.Errorf("image archive: %w", err)
		}
	}
	return nil
}

// Start starts the nodes and returns when each is ready for pods. ctx bounds the start only; the lab ends with
// Stop or with this process. The caller's main, or TestMain, has to begin with Role. An error names the component
// and says where the logs are; one that wraps ErrMissing says what this machine lacks.
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

// prepare does all before the first node: packages, programs, folders, the supervisor.
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
		return nil, fmt.Errorf("making the data folder: %w", err)
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
	// From here on everything is the supervisor's, who removes it whatever happens to us.
	if err := l.launchSupervisor(); err != nil {
		return nil, errors.Join(err, l.place.sweep())
	}
	l.stop = sync.OnceValue(l.end)
	return l, nil
}

// hidden are folders of the host that a node has for itself: nothing in them can be seen from inside.
var hidden = []string{"/run/", "/var/run/", "/var/lib/", "/var/log/"} //nolint:gochecknoglobals // a constant, if Go had such ones

// reachable refuses folders that the nodes would not see.
func (l *Lab) reachable() error {
	for _, path := range append([]string{l.dir, l.LogDir, l.programs, l.pause}, l.options.Archives...) {
		for _, folder := range hidden {
			if strings.HasPrefix(path, folder) {
				return fmt.Errorf("%s is in %s, which every node has for itself: use another folder (TMPDIR, XDG_CACHE_HOME)", path, folder)
			}
		}
	}
	return nil
}

func logDir(wanted string) (string, error) {
	if wanted == "" {
		dir, err := os.MkdirTemp("", "fleet-lab-logs-")
		if err != nil {
			return "", fmt.Errorf("making the log folder: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(wanted)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("making the log folder: %w", err)
	}
	return dir, nil
}

// Node returns the node of this name, or nil.
func (l *Lab) Node(name string) *Node {
	for _, n := range l.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Gone is closed when the lab has ended, whoever ended it.
func (l *Lab) Gone() <-chan struct{} { return l.supervisor.Gone() }

// Stop ends all nodes and removes everything but LogDir. It may be called again, and returns the same.
func (l *Lab) Stop() error { return l.stop() }

func (l *Lab) end() error {
	l.stopping.Store(true)
	err := l.supervisor.Close()
	// The supervisor has done this, unless it was killed itself.
	return errors.Join(err, l.place.sweep())
}

// Mark is by what a lab's traces on the machine are known.
func (l *Lab) Mark() Mark { return Mark{Number: l.place.number, Dir: l.dir} }

// RemoveLogs removes LogDir if Start made it, that is, if Options.LogDir was empty.
func (l *Lab) RemoveLogs() error {
	if l.options.LogDir != "" {
		return nil
	}
	return os.RemoveAll(l.LogDir)
}
