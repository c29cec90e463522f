// Package framework provides what the user stories need: the product's binaries, a hub and downstream clusters
// that run them, and the actions of a user.
//
//	Start ─► plane ─► charts installed ─► the story ─► Stop
package framework

import (
	"context"
	"errors"
	"os"
	"slices"

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

// World is a hub with the product's CRDs, and downstream clusters on which nothing is installed.
type World struct {
	*plane.Plane
	*User
	// Hub is the admin's client of the hub.
	Hub *client.Client

	built string // directory of the binaries that Start has built; empty if it has built none
}

// Options configures Start.
type Options struct {
	// Downstreams are the names of the downstream clusters.
	Downstreams []string
	// Later are those of Downstreams that do not start with the world, but with Cluster.Start.
	Later []string
	// OtherHubs are those downstream clusters that get the product's CRDs, too.
	OtherHubs []string
	// Binaries maps the product's executables to their paths. Nil builds them.
	Binaries map[string]string
	// Hold reports whether a cluster's pod stays Pending. Nil holds no pod.
	Hold func(cluster string, pod *corev1.Pod) bool
	// Audit, Stock and APIServerArgs are those of plane.Options, to measure costs.
	Audit, Stock  bool
	APIServerArgs func(cluster string) []string
	// LogDir is the directory of the logs, which is not removed. If it is empty, Start creates a directory, and
	// RemoveLogs removes it.
	LogDir string
	// Progress receives a line for each slow step. Nil drops it.
	Progress func(format string, args ...any)
}

// Start builds the product if needed and starts the control planes. It installs only the CRDs on the hub, see
// InstallHub.
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
		Downstreams: o.Downstreams, Later: o.Later, Binaries: o.Binaries, Hold: o.Hold, Progress: o.Progress, BeforeControllers: o.installCRDs,
		Audit: o.Audit, Stock: o.Stock, APIServerArgs: o.APIServerArgs,
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

// installCRDs installs the CRDs on a cluster that is a hub.
func (o Options) installCRDs(ctx context.Context, cluster *plane.Cluster) error {
	if slices.Contains(o.OtherHubs, cluster.Name) {
		return helm.CRDs(ctx, cluster)
	}
	return helm.HubCRDs(ctx, cluster)
}

// Stop ends everything and removes all files except the logs.
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
