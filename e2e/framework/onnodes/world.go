//go:build linux

// Package onnodes is the framework of the stories on real nodes: a hub and downstream clusters that run the
// product's images in pods.
//
//	images ─► nodes ─► charts installed as users do ─► the story ─► Stop
package onnodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/fleet-hub/fleet/dev/images"
	"github.com/fleet-hub/fleet/dev/lab/nodes"
	"github.com/fleet-hub/fleet/e2e/framework"
)

// The image names that the charts use by default. The nodes have these images and cannot pull others.
const (
	Repo = "docker.io/fleethub"
	Tag  = "dev"
)

// World is a hub and downstream clusters with our images, on which nothing is installed.
type World struct {
	*nodes.Lab
	*framework.User
}

// Options configures Start.
type Options struct {
	// Root is the directory of this repository.
	Root string
	// Archives is a directory with images that Build has created. If it is empty, Start builds them.
	Archives string
	// Downstreams are the names of the downstream clusters.
	Downstreams []string
	// LogDir is the directory of all logs. If it is empty, Start creates a directory.
	LogDir string
	// Progress receives a line for each slow step. Nil drops it.
	Progress func(format string, args ...any)
}

// Start builds the images, starts the nodes at the same time, and imports the images. The caller's TestMain has
// to call nodes.Role first.
func Start(ctx context.Context, o Options) (w *World, err error) {
	archives := o.Archives
	if archives == "" {
		if archives, err = os.MkdirTemp("", "fleet-e2e-images-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(archives)) }()
	}
	w = &World{}
	both, starting := errgroup.WithContext(ctx)
	if o.Archives == "" {
		both.Go(func() error { return Build(starting, o.Root, archives, o.Progress) })
	}
	both.Go(func() (err error) {
		w.Lab, err = nodes.Start(starting, nodes.Options{
			Names: append([]string{framework.HubName}, o.Downstreams...), LogDir: o.LogDir, Progress: o.Progress,
		})
		return err
	})
	err = both.Wait()
	if err == nil {
		err = w.stock(archives)
	}
	if err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// Stop ends everything and removes all files except the logs.
func (w *World) Stop() error {
	if w.Lab == nil {
		return nil
	}
	return w.Lab.Stop()
}

// Build builds the images for this machine in a directory.
func Build(ctx context.Context, root, archives string, progress func(format string, args ...any)) error {
	_, err := images.Build(ctx, images.Options{
		Repo: Repo, Tag: Tag, Root: root, Out: archives, Form: images.Form{Fast: true},
		Platforms: []string{runtime.GOOS + "/" + runtime.GOARCH},
		Progress:  func(line string) { progress("%s", line) },
	})
	if err != nil {
		return fmt.Errorf("making the images: %w", err)
	}
	return nil
}

// stock imports the images on all nodes and creates the user's clients.
func (w *World) stock(archives string) error {
	var sites []framework.Site
	var importing errgroup.Group
	for _, n := range w.Nodes {
		sites = append(sites, framework.Site{Name: n.Name, URL: n.URL, CA: n.CA, Kubeconfig: n.Kubeconfig, Config: n.Config()})
		importing.Go(func() error {
			return errors.Join(n.Import(filepath.Join(archives, "fleet.tar")), n.Import(filepath.Join(archives, "fleet-agent.tar")))
		})
	}
	if err := importing.Wait(); err != nil {
		return fmt.Errorf("putting the images on the nodes: %w", err)
	}
	var err error
	w.User, err = framework.NewUser(w.LogDir, sites...)
	return err
}
