// Package plane starts control planes as child processes on this machine: one hub and any number of downstream
// clusters. It needs no root, no containers, and downloads only Go modules. It is used by tests, make demo and
// benchmarks, and not by the product.
//
//	Start ─► supervisor ─┬─ etcd, shared by all clusters
//	                     ├─ kube-apiserver           per cluster, in parallel
//	                     ├─ kube-controller-manager  per cluster, after Options.BeforeControllers
//	                     ├─ core of Cluster API      hub only, when Plane.CAPI is called (package capi)
//	                     └─ pod processes            fleetcontroller, fleetagent (podrunner)
//
// All processes end with the caller: the supervisor holds a pipe to it (package supervise).
package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/requests"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// startsPerProcessor is how many clusters start at the same time, for each processor. With many more, etcd answers an API
// server so late that it gives up.
const startsPerProcessor = 2

// HubName is the hub's name among a plane's clusters.
const HubName = "hub"

// Options configures a plane. The zero value is a hub without downstream clusters.
type Options struct {
	// Downstreams are the unique names of the downstream clusters: lower case letters, digits and hyphens, but
	// not HubName.
	Downstreams []string
	// Later are those of Downstreams that do not start with the plane, but with Cluster.Start. They must not run during
	// Snapshot and Restore.
	Later []string
	// Binaries maps a command ("fleetcontroller", "fleetagent") to the path of an executable. A container with
	// such a command runs as a local process. All other pods become Ready without a process.
	Binaries map[string]string
	// Hold reports whether a cluster's pod stays Pending, as if no node had room for it. It is called at each
	// change of the pod. Nil holds no pod.
	Hold func(cluster string, pod *corev1.Pod) bool
	// ProcessEnv is added to the environment of each such process, as KEY=value. The container's own variables
	// win.
	ProcessEnv []string
	// BeforeControllers runs for each cluster after its API server and before its controller-manager has started.
	// Nil runs nothing. CRDs belong here: the garbage collector detects later ones only every 30 s.
	BeforeControllers func(context.Context, *Cluster) error
	// APIServerArgs returns additional flags for the API server of the named cluster. They come last. Nil adds
	// none.
	APIServerArgs func(cluster string) []string
	// Audit makes every API server write one line per request to Cluster.AuditLog.
	Audit bool
	// Stock keeps what users' clusters have by default, to measure costs: the client-side rate limits of the
	// controller-managers (20 requests per second), Go's garbage collection, and all processors. Without it the limits are
	// lifted, and args.Runtime applies.
	Stock bool
	// LogDir is the directory of all logs. It is created if missing, and never removed. If it is empty, Start
	// creates a directory in the system's temporary directory. The caller removes it with Plane.RemoveLogs.
	LogDir string
	// Progress receives one line per notable step. If it is nil, the lines are dropped.
	Progress func(format string, args ...any)
}

// Plane is a running hub with its downstream clusters.
type Plane struct {
	// Hub is the cluster named HubName.
	Hub *Cluster
	// Downstreams are the other clusters, in the order of Options.Downstreams.
	Downstreams []*Cluster
	// LogDir holds supervisor.log, etcd.log and one directory per cluster. Stop keeps it.
	LogDir string

	clusters   []*Cluster // all clusters, the hub first
	options    Options
	programs   string // directory of the control plane's executables
	dataDir    string
	recorded   string // directory for the controllers' recorded requests; empty if they are not recorded
	supervisor *supervise.Client
	clock      func() time.Time
	stop       func() error
	stopping   atomic.Bool

	mu   sync.Mutex // guards the fields below
	etcd *component

	installing sync.Mutex // guards the field below, also while Cluster API is being installed
	capi       *CAPI
}

// Start starts a hub and downstream clusters. It returns when each API server is ready, the hook has run and the
// controller-manager works. ctx limits only the start: a test suite's set-up often has a context that ends with
// the set-up. The plane ends with Stop or with this process. An error names the component, quotes its last log
// lines and names the logs.
//
// The first Start on a machine builds Kubernetes, which takes minutes. Options.Progress receives messages about
// it.
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

// prepare creates everything that needs no process: executables, directories and certificates.
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
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	// From here on the supervisor removes the directory, even when this process is killed.
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
			return "", fmt.Errorf("creating the log directory: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(wanted)
	if err != nil {
		return "", fmt.Errorf("finding the log directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the log directory: %w", err)
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
	for _, c := range p.clusters {
		if err := c.settle(); err != nil {
			return err
		}
	}
	places := make(chan struct{}, startsPerProcessor*runtime.NumCPU())
	var mu sync.Mutex
	var first error // the first failure, which makes the others fail too
	for _, c := range p.permanent() {
		clusters.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			err := c.Start(ctx)
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

// permanent returns the clusters that start with the plane: all but those of Options.Later.
func (p *Plane) permanent() []*Cluster {
	return slices.DeleteFunc(slices.Clone(p.clusters), func(c *Cluster) bool { return slices.Contains(p.options.Later, c.Name) })
}

// Cluster returns the cluster with this name, or nil.
func (p *Plane) Cluster(name string) *Cluster {
	for _, c := range p.clusters {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Stop ends all processes and removes all directories except LogDir. Further calls return the same result.
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
		wait() // short, because the processes have been killed
	}
	if p.recorded != "" && p.Hub != nil && p.Hub.auditLog != "" {
		err = errors.Join(err, requests.Record(p.recorded, p.Hub.auditLog))
	}
	// The supervisor has removed the directory, unless it was killed.
	return errors.Join(err, os.RemoveAll(p.dataDir))
}

// RemoveLogs removes LogDir if Start created it because Options.LogDir was empty.
func (p *Plane) RemoveLogs() error {
	if p.options.LogDir != "" {
		return nil
	}
	return os.RemoveAll(p.LogDir)
}
