// Package plane gives a hub and any number of downstream clusters as control planes that run as
// child processes on this machine: no root, no containers, no downloads but Go modules. Tests,
// `make demo` and benchmarks use it; the product does not.
//
//	Start ─► supervisor ─┬─ etcd, one for all
//	                     ├─ kube-apiserver           per cluster, in parallel
//	                     ├─ kube-controller-manager  per cluster, after Options.BeforeControllers
//	                     └─ pod processes            fleetcontroller, fleetagent (podrunner)
//
// Nothing outlives the caller: the supervisor holds a pipe to it (package supervise).
package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/requests"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// HubName is the name of the hub among a plane's clusters.
const HubName = "hub"

// Options says what Start starts. The zero value is a hub alone.
type Options struct {
	// Downstreams are the names of the clusters beside the hub: lower case letters, digits and
	// hyphens, none twice, none HubName.
	Downstreams []string
	// Binaries says which pods are run as local processes: those with a container whose command
	// starts with one of the keys ("fleetcontroller", "fleetagent"); the value is the executable's
	// path. All other pods turn Ready without anything running.
	Binaries map[string]string
	// Hold says of a cluster's pod whether it is to stay Pending, as where no node has room for it; it
	// is asked whenever the pod changes. Nil holds none.
	Hold func(cluster string, pod *corev1.Pod) bool
	// ProcessEnv is added to the environment of every such process, KEY=value; the container's own wins.
	ProcessEnv []string
	// BeforeControllers runs for each cluster between its API server and its controller-manager; nil
	// runs nothing. CRDs belong here: the garbage collector learns of later ones only every 30 s.
	BeforeControllers func(context.Context, *Cluster) error
	// APIServerArgs returns flags for the API server of the cluster of this name, after all others;
	// nil adds none.
	APIServerArgs func(cluster string) []string
	// Audit makes every API server write one line per request to Cluster.AuditLog.
	Audit bool
	// StockControllerLimits leaves the controller-managers' client limits at their defaults (20
	// requests a second), as where cost is measured; otherwise they are lifted.
	StockControllerLimits bool
	// LogDir is where each component's and pod's log goes; it is made where missing and never
	// removed. Empty means a new folder in the system's temporary folder, which the caller of Start
	// removes when it needs no logs (Plane.RemoveLogs).
	LogDir string
	// Progress receives one line per thing worth knowing while one waits; nil drops them.
	Progress func(format string, args ...any)
}

// Plane is a running hub with its downstream clusters.
type Plane struct {
	// Hub is the cluster named HubName.
	Hub *Cluster
	// Downstreams are the others, in the order of Options.Downstreams.
	Downstreams []*Cluster
	// LogDir holds supervisor.log, etcd.log and a folder per cluster; it survives Stop.
	LogDir string

	clusters   []*Cluster // all, the hub first
	options    Options
	programs   string // folder of the control plane's executables
	dataDir    string
	recorded   string // folder in which the controllers' requests are recorded; empty if they are not
	supervisor *supervise.Client
	clock      func() time.Time
	stop       func() error
	stopping   atomic.Bool

	mu   sync.Mutex // guards what follows
	etcd *component
}

// Start starts a hub and downstream clusters, and returns when each of them answers, has run the
// hook and has a working controller-manager. ctx bounds the start only (a suite's set-up often has
// one that ends with the set-up); the plane ends with Stop or with the process. An error names the
// component, quotes its last lines and says where the logs are.
//
// The first Start on a machine builds Kubernetes, which takes minutes and is told to Options.Progress.
func Start(ctx context.Context, options Options) (*Plane, error) {
	if err := validate(options); err != nil {
		return nil, err
	}
	p, err := prepare(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("preparing the control planes: %w", err)
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\nlogs: %s", err, p.LogDir), p.Stop())
	}
	return p, nil
}

// prepare makes all that needs no process: executables, folders, certificates.
func prepare(ctx context.Context, options Options) (*Plane, error) {
	p := &Plane{options: options, clock: time.Now} //nolint:forbidigo // this is where the clock is made
	p.recorded = os.Getenv(requests.Variable)      //nolint:forbidigo // make test says it to all packages at once
	if p.options.Progress == nil {
		p.options.Progress = func(string, ...any) {}
	}
	supervisor, err := build.Supervisor(ctx, p.options.Progress)
	if err != nil {
		return nil, err
	}
	if p.programs, err = build.Kube(ctx, p.options.Progress); err != nil {
		return nil, err
	}
	if p.LogDir, err = logDir(options.LogDir); err != nil {
		return nil, err
	}
	if p.dataDir, err = os.MkdirTemp("", "fleet-plane-"); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	// From here on the folder is the supervisor's, who removes it whatever happens to us.
	p.supervisor, err = supervise.Launch(supervise.Options{
		Binary: supervisor, DataDir: p.dataDir, Log: filepath.Join(p.LogDir, "supervisor.log"),
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dataDir))
	}
	p.stop = sync.OnceValue(p.end)
	if err := p.addClusters(); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func logDir(wanted string) (string, error) {
	if wanted == "" {
		dir, err := os.MkdirTemp("", "fleet-plane-logs-")
		if err != nil {
			return "", fmt.Errorf("making the log folder: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(wanted)
	if err != nil {
		return "", fmt.Errorf("finding the log folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the log folder: %w", err)
	}
	return dir, nil
}

func (p *Plane) addClusters() error {
	for _, name := range append([]string{HubName}, p.options.Downstreams...) {
		c, err := newCluster(p, name)
		if err != nil {
			return err
		}
		p.clusters = append(p.clusters, c)
	}
	p.Hub, p.Downstreams = p.clusters[0], p.clusters[1:]
	return nil
}

func (p *Plane) start(ctx context.Context) error {
	if err := p.startStore(); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var clusters sync.WaitGroup
	var mu sync.Mutex
	var first error // the others fail because of it
	for _, c := range p.clusters {
		clusters.Go(func() {
			err := c.start(ctx)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
				giveUp(err)
			}
		})
	}
	clusters.Wait()
	return first
}

// Cluster returns the cluster of this name, or nil.
func (p *Plane) Cluster(name string) *Cluster {
	for _, c := range p.clusters {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Stop ends all processes and removes all folders but LogDir. It may be called again, and returns
// the same.
func (p *Plane) Stop() error { return p.stop() }

func (p *Plane) end() error {
	p.stopping.Store(true)
	var pods []func()
	for _, c := range p.clusters {
		if c.stopRunner(); c.pods != nil {
			pods = append(pods, c.pods.Close())
		}
	}
	err := p.supervisor.Close()
	for _, c := range p.clusters {
		c.releasePorts()
	}
	for _, wait := range pods {
		wait() // short: the processes are dead
	}
	if p.recorded != "" && p.Hub != nil && p.Hub.auditLog != "" {
		err = errors.Join(err, requests.Record(p.recorded, p.Hub.auditLog))
	}
	// The supervisor has removed it, unless it was killed itself.
	return errors.Join(err, os.RemoveAll(p.dataDir))
}

// RemoveLogs removes LogDir if Start made it, that is, if Options.LogDir was empty.
func (p *Plane) RemoveLogs() error {
	if p.options.LogDir != "" {
		return nil
	}
	return os.RemoveAll(p.LogDir)
}
