package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/dev/machines"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/e2e/framework"
)

// The clusters in clusters.yaml.
const (
	east   = "east"
	remote = "remote" // joins with a manifest
)

// demo is one run of the demo.
type demo struct {
	out      io.Writer
	binaries map[string]string
	world    *framework.World
	objects  dynamic.Interface // the admin's client of the hub
	dir      string
	host     *host.Child
	provider *machines.Provider
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	d := &demo{out: out}
	if d.binaries, err = framework.BinariesIn(o.binaries, "fleetcontroller", "fleetagent"); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, d.end())
		switch {
		case d.world == nil:
		case err != nil:
			err = fmt.Errorf("%w\nlogs: %s", err, d.world.LogDir)
		case o.once:
			err = d.world.RemoveLogs()
		}
	}()
	if err := d.step("start the hub", "", func() error { return d.startHub(ctx) }); err != nil {
		return err
	}
	if err := d.steps(ctx, o.timeout); err != nil {
		return err
	}
	if o.once {
		return nil
	}
	d.say("The demo runs until Ctrl-C. In another terminal:\n  export KUBECONFIG=%s\n"+
		"  kubectl get clusters.cluster.x-k8s.io,machines.cluster.x-k8s.io -A\n  kubectl get clusters.fleet.cattle.io -A\n"+
		"  kubectl get secret -n fleet-default east-kubeconfig -o jsonpath='{.data.value}' | base64 -d > east.kubeconfig\n"+
		"  kubectl --kubeconfig east.kubeconfig get pods -A\nlogs: %s",
		d.world.Plane.Hub.KubeconfigPath, d.world.LogDir)
	<-ctx.Done()
	return nil
}

func (d *demo) steps(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, step := range []struct {
		what, command string
		do            func(context.Context) error
	}{
		{"install Fleet", "helm install fleet charts/fleet -n cattle-fleet-system --set capi.enabled=true", d.installFleet},
		{"start Cluster API, the machine host and the provider", "", d.startProvider},
		{"create a ClusterClass and two clusters", "kubectl apply -f dev/machines/demo/clusters.yaml", d.createClusters},
		{"remote gets the manifest of its agent", "kubectl get secret -n fleet-default remote-fleet-join -o jsonpath='{.data.value}' | base64 -d | kubectl --kubeconfig remote.kubeconfig apply --server-side -f -", d.joinRemote},
		{"both clusters have joined", "kubectl get clusters.fleet.cattle.io -A", d.awaitJoined},
		{"a Bundle is ready on both", "kubectl get bundles.fleet.cattle.io -n fleet-default hello", d.deliver},
		{"scale the MachineDeployment of east to 2", `kubectl patch clusters.cluster.x-k8s.io -n fleet-default east --type json -p '` + scalePatch + `'`, d.scale},
		{"delete remote: machines and registration end", "kubectl delete clusters.cluster.x-k8s.io -n fleet-default remote", d.deleteRemote},
	} {
		if err := d.step(step.what, step.command, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("step %q: %w", step.what, err)
		}
	}
	return nil
}

// step prints the command, runs the step and prints its duration.
func (d *demo) step(what, command string, do func() error) error {
	if command != "" {
		d.say("$ %s", command)
	}
	began := time.Now() //nolint:forbidigo // the demo prints durations
	err := do()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	d.say("%s %-55s %6.2fs", mark, what, time.Since(began).Seconds()) //nolint:forbidigo // as above
	return err
}

func (d *demo) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format+"\n", args...) // a failed write cannot be reported
}

func (d *demo) startHub(ctx context.Context) (err error) {
	if d.world, err = framework.Start(ctx, framework.Options{Binaries: d.binaries, Progress: d.say}); err != nil {
		return err
	}
	d.objects, err = dynamic.NewForConfig(d.world.Plane.Hub.Config())
	return err
}

func (d *demo) installFleet(ctx context.Context) error {
	return d.world.InstallHub(ctx, map[string]any{"bootstrap": map[string]any{"enabled": false}, "capi": map[string]any{"enabled": true}})
}

func (d *demo) startProvider(ctx context.Context) (err error) {
	if _, err = d.world.CAPI(ctx); err != nil {
		return err
	}
	path, err := host.Programs(ctx, d.say)
	if err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "lab-"); err != nil {
		return err
	}
	d.host, err = host.Start(ctx, host.StartOptions{
		Dir: filepath.Join(d.dir, "host"), Path: append(path, filepath.Dir(d.binaries["fleetagent"])),
		Log: filepath.Join(d.world.LogDir, "machine-host.log"), Progress: d.say,
	})
	if err != nil {
		return err
	}
	d.provider, err = machines.Start(ctx, machines.Options{
		Config: d.world.Plane.Hub.Config(), Socket: d.host.Socket, Log: filepath.Join(d.world.LogDir, "machine-provider.log"), Progress: d.say,
	})
	return err
}

// end ends all processes and removes everything except the logs.
func (d *demo) end() (err error) {
	if d.provider != nil {
		err = errors.Join(err, d.provider.Close())
	}
	if d.host != nil {
		err = errors.Join(err, d.host.Close())
	}
	if d.dir != "" {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	if d.world != nil {
		err = errors.Join(err, d.world.Stop())
	}
	return err
}
