package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/names"
	"github.com/fleet-hub/fleet/internal/plane"
)

// The demo's clusters, beside the hub.
const (
	east = "east"
	west = "west"
)

// The workspaces of the demo.
const (
	workspace      = "fleet-default"
	localWorkspace = "fleet-local"
)

// demo is a run of it.
type demo struct {
	report *reporter
	plane  *plane.Plane
	hub    *client.Client
	// rows are the joined clusters, in the order in which they joined.
	rows []row
}

// row is what the demo says of one cluster.
type row struct {
	Cluster      string  `json:"cluster"`
	WayIn        string  `json:"wayIn"`
	Seconds      float64 `json:"secondsToFirstHeartbeat"`
	BundlesReady string  `json:"bundlesReady"`
	namespace    string
	name         string
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	report := newReporter(progress)
	binaries, err := binariesIn(o.binaries)
	if err != nil {
		return err
	}
	d := &demo{report: report}
	report.begin("control planes hub, east and west")
	d.plane, err = plane.Start(ctx, plane.Options{
		Downstreams: []string{east, west}, Binaries: binaries, Progress: report.note, BeforeControllers: installCRDs,
	})
	report.end(err)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, d.plane.Stop())
		if err != nil {
			err = fmt.Errorf("%w\nlogs: %s", err, d.plane.LogDir)
		}
	}()
	if err := d.join(ctx, o.timeout); err != nil {
		return err
	}
	if err := d.print(out, o.output); err != nil {
		return err
	}
	if o.once {
		report.note("logs: %s", d.plane.LogDir)
		return nil
	}
	d.printNext(progress)
	<-ctx.Done()
	report.note("stopping; logs: %s", d.plane.LogDir)
	return nil
}

// join does everything between running control planes and the table.
func (d *demo) join(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	if d.hub, err = client.New(d.plane.Hub.Config()); err != nil {
		return err
	}
	for _, step := range []struct {
		says string
		do   func(context.Context) error
	}{
		{"helm install fleet on the hub", d.installController},
		{"hub registers itself", d.joinLocal},
		{"east joins by a kubeconfig Secret", d.joinEast},
		{"west joins by helm install fleet-agent", d.joinWest},
		{"Bundles chart and manifests reach all three", d.deliver},
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

// installCRDs runs before the hub's controller-manager: its garbage collector learns of later CRDs
// only every half minute.
func installCRDs(ctx context.Context, cluster *plane.Cluster) error {
	if cluster.Name != plane.HubName {
		return nil
	}
	return helm.Release{Config: cluster.Config(), Chart: "fleet-crd", Name: "fleet-crd", Namespace: names.SystemNamespace}.Install(ctx)
}

// crdSettling is how long an API server holds back the first objects of a kind whose CRD has just
// appeared. A hub's CRDs are there long before its first cluster, so this is none of a cluster's time.
const crdSettling = 2 * time.Second

func (d *demo) installController(ctx context.Context) error {
	hub := d.plane.Hub
	select {
	case <-time.After(crdSettling):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.hub.EnsureNamespace(ctx, workspace); err != nil {
		return err
	}
	return helm.Release{
		Config: hub.Config(), Chart: "fleet", Name: "fleet", Namespace: names.SystemNamespace,
		Values: map[string]any{"apiServerURL": hub.URL, "apiServerCA": string(hub.CA)},
	}.Install(ctx)
}
