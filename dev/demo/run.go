package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The demo's clusters, beside the hub.
const (
	east = "east"
	west = "west"
)

// demo is a run of it.
type demo struct {
	report *reporter
	world  *framework.World
	// rows are the joined clusters, in the order in which they joined.
	rows []row
}

// row is what the demo says of one cluster.
type row struct {
	Cluster      string  `json:"cluster"`
	WayIn        string  `json:"wayIn"`
	Seconds      float64 `json:"secondsToFirstHeartbeat"`
	BundlesReady string  `json:"bundlesReady"`
	// Agent says who manages it.
	Agent string `json:"agent"`
	// cluster and pod, the agent's, are those of the first heartbeat.
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
	report.begin("control planes hub, east and west")
	d.world, err = framework.Start(ctx, framework.Options{Downstreams: []string{east, west}, Binaries: binaries, Progress: report.note})
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

// join does everything between running control planes and the table.
func (d *demo) join(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, step := range []struct {
		says string
		do   func(context.Context) error
	}{
		{"helm install fleet on the hub", d.installController},
		{"hub registers itself", d.joinLocal},
		{"east joins by a kubeconfig Secret", d.joinEast},
		{"west joins by helm install fleet-agent", d.joinWest},
		{"the agents' Bundles take the agents over", d.adopt},
		{"Bundles chart and manifests reach all three", d.deliver},
		{"chart goes to a ClusterGroup, east customised", d.customise},
		{"chart 0.2.0 rolls out: dev, then prod", d.rollOut},
	} {
		d.report.begin(step.says)
		err := step.do(ctx)
		d.report.end(err)
		if err != nil {
			return fmt.Errorf("%s: %w", step.says, err)
		}
	}
	return nil
}

// binariesIn are the product's two executables, which the pods of the demo run.
func binariesIn(folder string) (map[string]string, error) {
	binaries := map[string]string{}
	for _, name := range []string{"fleetcontroller", "fleetagent"} {
		file, err := filepath.Abs(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%s is not there: run make build first, or say where with --binaries", file)
		}
		binaries[name] = file
	}
	return binaries, nil
}

// crdSettling is how long an API server holds back the first objects of a kind whose CRD has just
// appeared. A hub's CRDs are there long before its first cluster, so this is none of a cluster's time.
const crdSettling = 2 * time.Second

func (d *demo) installController(ctx context.Context) error {
	select {
	case <-time.After(crdSettling):
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.world.InstallHub(ctx, nil)
}
