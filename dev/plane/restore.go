package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fleet-hub/fleet/dev/plane/args"
)

// snapshotFolder is a directory in the plane's data directory, beside etcd's.
const snapshotFolder = "etcd-snapshot"

// startStore starts etcd with the existing data.
func (p *Plane) startStore() error {
	etcd, err := p.run(program{name: "etcd", path: filepath.Join(p.programs, "etcd"), args: args.Etcd(), log: filepath.Join(p.LogDir, "etcd.log")})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.etcd = etcd
	return nil
}

// store returns the running etcd.
func (p *Plane) store() *component {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.etcd
}

// Snapshot copies the data of all clusters for Restore. etcd restarts for it; the API servers reconnect.
func (p *Plane) Snapshot(ctx context.Context) error {
	if err := p.store().kill(); err != nil {
		return err
	}
	to := filepath.Join(p.dataDir, snapshotFolder)
	err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(p.dataDir, args.EtcdFolder))))
	if err := errors.Join(err, p.startStore()); err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	return p.awaitServers(ctx)
}

// Restore resets all clusters to the last Snapshot, as an administrator does after a disaster. API servers and
// controller-managers are restarted with the older data. Resource versions continue from the snapshot. Clients
// may therefore have seen later versions, and these will be used again for other changes.
func (p *Plane) Restore(ctx context.Context) error {
	for _, c := range p.permanent() {
		if err := errors.Join(c.endControllers(), c.Pause()); err != nil {
			return err
		}
	}
	if err := p.store().kill(); err != nil {
		return err
	}
	live := filepath.Join(p.dataDir, args.EtcdFolder)
	err := errors.Join(os.RemoveAll(live), os.CopyFS(live, os.DirFS(filepath.Join(p.dataDir, snapshotFolder))))
	if err := errors.Join(err, p.startStore()); err != nil {
		return fmt.Errorf("restoring a snapshot: %w", err)
	}
	for _, c := range p.permanent() {
		if err := errors.Join(c.Resume(ctx), c.startControllers(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// awaitServers waits until every API server is ready.
func (p *Plane) awaitServers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, c := range p.permanent() {
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

// HoldControllers stops or continues the cluster's controller-manager. While it is stopped, token Secrets get no
// token, namespaces are not finalized and garbage is not collected.
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
