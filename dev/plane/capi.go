package plane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/capi"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/ports"
)

// CAPI is the core of Cluster API, which runs for the hub: the controllers of Clusters, Machines, MachineDeployments
// and ClusterClasses, and their webhooks. It contains no provider.
type CAPI struct {
	// Kubeconfig is the path of the core's kubeconfig, with a token of ServiceAccount capi-system/capi-manager.
	Kubeconfig string
	// Log is the path of the core's log. It contains all restarts.
	Log string

	plane   *Plane
	core    *capi.Core
	program program

	mu      sync.Mutex // guards the field below
	process *component
}

// CAPI installs the core of Cluster API on the hub, starts it as a process, and returns when it serves its webhooks.
// Further calls return the same core. It ends with the plane. ctx limits only this call.
//
// The first call on a machine builds the core, which takes minutes. Options.Progress receives messages about it.
func (p *Plane) CAPI(ctx context.Context) (*CAPI, error) {
	p.installing.Lock()
	defer p.installing.Unlock()
	if p.capi != nil {
		return p.capi, nil
	}
	c, err := p.installCAPI(ctx)
	if err == nil {
		err = c.Restart(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("starting Cluster API on the hub: %w", err)
	}
	p.capi = c
	return c, nil
}

func (p *Plane) installCAPI(ctx context.Context) (*CAPI, error) {
	programs, err := build.CAPI(ctx, p.options.Progress)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	core, err := capi.Install(ctx, capi.Options{
		Config: p.Hub.Config(), Manifests: filepath.Join(programs, build.CAPIConfig), Dir: filepath.Join(p.Hub.dir, "capi"),
		Ports: ports.Free, Now: p.clock(),
		Kubeconfig: func(tokenFile string) ([]byte, error) {
			return p.Hub.access(pki.Access{TokenFile: tokenFile}).Kubeconfig()
		},
	})
	if err != nil {
		return nil, err
	}
	c := &CAPI{Kubeconfig: core.Kubeconfig, Log: filepath.Join(p.Hub.LogDir, "capi-core.log"), plane: p, core: core}
	c.program = program{name: p.Hub.Name + ": core of Cluster API", path: filepath.Join(programs, build.CAPICore), args: core.Args(), log: c.Log}
	return c, nil
}

// Kill kills the core with SIGKILL and returns when it has ended. Until Restart, CAPI objects cannot be created or
// changed, because their webhooks do not answer, and cannot be read in version v1beta1.
func (c *CAPI) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return nil
	}
	return c.process.kill()
}

// Restart kills the core if it is running, and starts it again with the same ports and account. It returns when the
// core serves its webhooks.
func (c *CAPI) Restart(ctx context.Context) error {
	if err := c.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	process, err := c.plane.run(c.program)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.process = process
	c.mu.Unlock()
	if err := c.plane.await(ctx, process, c.core.Ready); err != nil {
		return errors.Join(err, c.Kill())
	}
	return nil
}
