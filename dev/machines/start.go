package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// Options configures Start.
type Options struct {
	// Config is the admin's client configuration of the management cluster, where the core of Cluster API is installed.
	Config *rest.Config
	// Socket is the path of the machine host's socket.
	Socket string
	// Executable is the provider's program. If it is empty, it is built once.
	Executable string
	// Log is the file for the provider's log. It contains all restarts.
	Log string
	// Progress receives messages about builds. It may be nil.
	Progress build.Progress
}

// Provider is a machine provider that runs as a child process. It ends with this process.
type Provider struct {
	// Kubeconfig is the path of the provider's kubeconfig, with a token of its ServiceAccount.
	Kubeconfig string

	options    Options
	dir        string
	supervisor *supervise.Client

	mu      sync.Mutex // guards the field below
	process *supervise.Process
}

// Start installs the provider, starts it, and returns when its controllers run. ctx limits only the start. The caller
// ends it with Close.
func Start(ctx context.Context, o Options) (*Provider, error) {
	if err := Install(ctx, o.Config); err != nil {
		return nil, fmt.Errorf("installing the machine provider: %w", err)
	}
	p, err := prepare(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("preparing the machine provider: %w", err)
	}
	if err := p.Restart(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// prepare builds the programs, launches the supervisor, and writes the kubeconfig.
func prepare(ctx context.Context, o Options) (*Provider, error) {
	var err error
	if o.Executable == "" {
		if o.Executable, err = build.MachineProvider(ctx, o.Progress); err != nil {
			return nil, err
		}
	}
	supervisor, err := build.Supervisor(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "machine-provider-")
	if err != nil {
		return nil, fmt.Errorf("creating the provider's folder: %w", err)
	}
	// From here on the supervisor removes the folder, even when this process is killed.
	client, err := supervise.Launch(supervise.Options{Binary: supervisor, DataDir: dir, Log: o.Log})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &Provider{Kubeconfig: filepath.Join(dir, pki.FileKubeconfig), options: o, dir: dir, supervisor: client}
	if err := p.writeKubeconfig(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return p, nil
}

func (p *Provider) writeKubeconfig(ctx context.Context) error {
	token, err := newToken(ctx, p.options.Config)
	if err != nil {
		return err
	}
	content, err := pki.Access{Name: "management", URL: p.options.Config.Host, CA: p.options.Config.CAData, Token: token}.Kubeconfig()
	if err != nil {
		return err
	}
	return pki.Write(p.dir, pki.FileKubeconfig, content)
}

// Restart kills the provider if it is running, starts it, and returns when its controllers run.
func (p *Provider) Restart(ctx context.Context) error {
	if err := p.Kill(); err != nil {
		return err
	}
	ready := filepath.Join(p.dir, "ready")
	if err := os.Remove(ready); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the ready file: %w", err)
	}
	process, err := p.supervisor.Start(supervise.Command{
		Path: p.options.Executable, Log: p.options.Log, Env: []string{"HOME=" + p.dir},
		Args: []string{"--kubeconfig=" + p.Kubeconfig, "--host=" + p.options.Socket, "--ready-file=" + ready},
	})
	if err != nil {
		return fmt.Errorf("starting the machine provider: %w", err)
	}
	p.mu.Lock()
	p.process = process
	p.mu.Unlock()
	if err := p.await(ctx, process, ready); err != nil {
		return errors.Join(fmt.Errorf("starting the machine provider: %w; its log: %s", err, p.options.Log), p.Kill())
	}
	return nil
}

// await returns when the ready file exists or the process has ended.
func (p *Provider) await(ctx context.Context, process *supervise.Process, ready string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, pollEvery, true, func(context.Context) (bool, error) {
		select {
		case <-process.Done():
			return false, fmt.Errorf("it ended: %s", process.Status().Text)
		default:
			_, err := os.Stat(ready)
			return err == nil, nil
		}
	})
}

// Kill kills the provider with SIGKILL and returns when it has ended.
func (p *Provider) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return nil
	}
	if err := p.process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the machine provider: %w", err)
	}
	<-p.process.Done()
	p.process = nil
	return nil
}

// Close ends the provider and removes its folder. Machines and objects stay.
func (p *Provider) Close() error { return p.supervisor.Close() }
