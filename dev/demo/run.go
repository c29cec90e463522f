package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The demo's downstream clusters.
const (
	east = "east"
	west = "west"
)

// demo is one run of the demo.
type demo struct {
	report   *reporter
	world    *framework.World
	commands *commandLine
	// rows are the registered clusters, in registration order.
	rows []row
}

// row is the result of one cluster.
type row struct {
	Cluster      string  `json:"cluster"`
	WayIn        string  `json:"wayIn"`
	Seconds      float64 `json:"secondsToFirstHeartbeat"`
	BundlesReady string  `json:"bundlesReady"`
	// Agent describes how the agent is managed.
	Agent string `json:"agent"`
	// since is when the registration began. cluster is the Cluster at the first heartbeat, pod the UID of the agent's pod at
	// that time.
	since   time.Time
	cluster *fleet.Cluster
	pod     types.UID
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	report := newReporter(progress)
	binaries, err := binariesIn(o.binaries)
	if err != nil {
		return err
	}
	d := &demo{report: report}
	report.begin("start control planes hub, east and west")
	d.world, err = framework.Start(ctx, framework.Options{Downstreams: []string{east, west}, Binaries: inPods(binaries), Progress: report.note})
	report.end(err)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, d.world.Stop())
		if err != nil {
			err = fmt.Errorf("%w\nlogs: %s", err, d.world.LogDir)
		}
	}()
	if d.commands, err = newCommandLine(filepath.Dir(binaries[fleetProgram]), d.world, report); err != nil {
		return err
	}
	if err := d.join(ctx, o.timeout); err != nil {
		return err
	}
	if err := d.print(out, o.output); err != nil {
		return err
	}
	if o.once {
		report.note("logs: %s", d.world.LogDir)
		return nil
	}
	d.printNext(progress)
	<-ctx.Done()
	report.note("stopping; logs: %s", d.world.LogDir)
	return nil
}

// join runs all steps from the installation to the rollout.
func (d *demo) join(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, step := range []struct {
		says string
		do   func(context.Context) error
	}{
		{"install chart fleet on the hub", d.installController},
		{"register the hub's own cluster", d.joinLocal},
		{"register east from the hub: fleet import", d.joinEast},
		{"register west from west: fleet join", d.joinWest},
		{"agents are managed by their Bundles", d.adopt},
		{"deliver Bundles chart and manifests", d.deliver},
		{"target chart at a ClusterGroup, customise east", d.customise},
		{"roll out chart 0.2.0: first dev, then prod", d.rollOut},
		{"list the clusters as kubectl's plugin", d.list},
	} {
		d.report.begin(step.says)
		err := step.do(ctx)
		d.report.end(err)
		if err != nil {
			return fmt.Errorf("step %q: %w", step.says, err)
		}
	}
	return nil
}

// binariesIn returns the paths of the executables in a directory. The demo runs fleet, and its pods run the others.
func binariesIn(folder string) (map[string]string, error) {
	return framework.BinariesIn(folder, "fleetcontroller", "fleetagent", fleetProgram, pluginProgram, completionProgram)
}

// inPods returns the executables that pods run.
func inPods(binaries map[string]string) map[string]string {
	return map[string]string{"fleetcontroller": binaries["fleetcontroller"], "fleetagent": binaries["fleetagent"]}
}

// crdSettling is how long an API server delays the first objects of a new CRD. The demo waits before it installs
// the controller, so that this delay is not counted as registration time: a real hub has its CRDs long before its
// first cluster.
const crdSettling = 2 * time.Second

func (d *demo) installController(ctx context.Context) error {
	select {
	case <-time.After(crdSettling):
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.world.InstallHub(ctx, nil)
}
