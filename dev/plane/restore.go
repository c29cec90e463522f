package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Folders in the plane's data folder.
const (
	etcdFolder     = "etcd"
	snapshotFolder = "etcd-snapshot"
)

// startStore starts the one etcd, on the data there is.
func (p *Plane) startStore() error {
	etcd, err := p.run(program{name: "etcd", file: "etcd", args: etcdArgs(), log: filepath.Join(p.LogDir, "etcd.log")})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.etcd = etcd
	return nil
}

// store is the etcd that runs now.
func (p *Plane) store() *component {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.etcd
}

// Snapshot keeps a copy of what all clusters have now, for Restore. The store is away for a moment; API servers find it
// again by themselves.
func (p *Plane) Snapshot(ctx context.Context) error {
	if err := p.store().kill(); err != nil {
		return err
	}
	to := filepath.Join(p.dataDir, snapshotFolder)
	err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(p.dataDir, etcdFolder))))
	if err := errors.Join(err, p.startStore()); err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	return p.awaitServers(ctx)
}

// Restore gives all clusters back what they had at the last Snapshot, as an administrator does after a disaster: API
// servers and controller-managers end, and start again on the older data. Revisions begin again where they were then,
// so that clients know some that have not been yet, and that mean other things when they come.
func (p *Plane) Restore(ctx context.Context) error {
	for _, c := range p.clusters {
		if err := errors.Join(c.endControllers(), c.Pause()); err != nil {
			return err
		}
	}
	if err := p.store().kill(); err != nil {
		return err
	}
	live := filepath.Join(p.dataDir, etcdFolder)
	err := errors.Join(os.RemoveAll(live), os.CopyFS(live, os.DirFS(filepath.Join(p.dataDir, snapshotFolder))))
	if err := errors.Join(err, p.startStore()); err != nil {
		return fmt.Errorf("restoring a snapshot: %w", err)
	}
	for _, c := range p.clusters {
		if err := errors.Join(c.Resume(ctx), c.startControllers(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// awaitServers waits until each API server has its store again.
func (p *Plane) awaitServers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, c := range p.clusters {
		c.mu.Lock()
		server := c.apiServer
		c.mu.Unlock()
		err := p.await(ctx, server, func(ctx context.Context) error {
			_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// HoldControllers stops the cluster's controller-manager where it is, until it is let go: nobody fills token Secrets,
// ends namespaces or collects garbage.
func (c *Cluster) HoldControllers(hold bool) error {
	c.mu.Lock()
	controller := c.controller
	c.mu.Unlock()
	return controller.hold(hold)
}

func (c *Cluster) endControllers() error {
	c.mu.Lock()
	controller := c.controller
	c.mu.Unlock()
	return controller.kill()
}
