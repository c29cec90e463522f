// Package framework is what the user stories need: the product's own binaries, a hub and downstream
// clusters that run them, and the few things a user does.
//
//	Start ─► plane ─► charts installed ─► the story ─► Stop
package framework

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
)

// Workspaces of the stories.
const (
	Workspace      = "fleet-default"
	LocalWorkspace = "fleet-local"
)

// World is a hub with the product installed, and downstream clusters on which nothing is.
type World struct {
	*plane.Plane
	*User
	// Hub reaches the hub as an admin.
	Hub *client.Client

	built string // folder of the binaries that Start has built; empty if it has not
}

// Options of Start.
type Options struct {
	// Downstreams are the clusters beside the hub.
	Downstreams []string
	// Binaries are the product's executables by name; nil builds them.
	Binaries map[string]string
	// Hold says of a cluster's pod whether it is to stay Pending; nil holds none.
	Hold func(cluster string, pod *corev1.Pod) bool
	// Audit, StockControllerLimits and APIServerArgs are those of plane.Options: a world in which cost is measured.
	Audit, StockControllerLimits bool
	APIServerArgs                func(cluster string) []string
	// LogDir is where logs go and stay; empty is a folder that RemoveLogs removes.
	LogDir string
	// Progress receives a line for what takes long; nil drops it.
	Progress func(format string, args ...any)
}

// Start builds the product where it has to, and starts the planes; on the hub are the CRDs, and else
// nothing (InstallHub).
func Start(ctx context.Context, o Options) (*World, error) {
	w := &World{}
	if o.Binaries == nil {
		var err error
		if w.built, err = os.MkdirTemp("", "fleet-e2e-"); err != nil {
			return nil, err
		}
		if o.Binaries, err = Build(ctx, w.built); err != nil {
			return nil, errors.Join(err, w.Stop())
		}
	}
	var err error
	w.Plane, err = plane.Start(ctx, plane.Options{
		Downstreams: o.Downstreams, Binaries: o.Binaries, Hold: o.Hold, Progress: o.Progress, BeforeControllers: helm.HubCRDs,
		Audit: o.Audit, StockControllerLimits: o.StockControllerLimits, APIServerArgs: o.APIServerArgs,
		LogDir: o.LogDir,
	})
	if err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	var sites []Site
	for _, c := range append([]*plane.Cluster{w.Plane.Hub}, w.Downstreams...) {
		sites = append(sites, Site{Name: c.Name, URL: c.URL, CA: c.CA, Kubeconfig: c.Kubeconfig, Config: c.Config()})
	}
	if w.User, err = NewUser(w.LogDir, sites...); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	w.Hub = w.User.Hub
	return w, nil
}

// Stop ends everything and removes all but the logs.
func (w *World) Stop() error {
	var err error
	if w.Plane != nil {
		err = w.Plane.Stop()
	}
	if w.built != "" {
		err = errors.Join(err, os.RemoveAll(w.built))
	}
	return err
}

// Build makes the product's two binaries in a folder, and says where they are.
func Build(ctx context.Context, folder string) (map[string]string, error) {
	binaries := map[string]string{}
	for name, source := range map[string]string{"fleetcontroller": "cmd/controller", "fleetagent": "cmd/agent"} {
		binaries[name] = filepath.Join(folder, name)
		if err := goBuild(ctx, binaries[name], source); err != nil {
			return nil, err
		}
	}
	return binaries, nil
}
