//go:build linux

package inside

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// startTimeout limits each step of a node's start. A few seconds are usual.
const startTimeout = 2 * time.Minute

// pollEvery is the interval between two readiness checks of a starting component.
const pollEvery = 20 * time.Millisecond

// node is a running node.
type node struct {
	Spec
	log    *slog.Logger
	reaper *reaper
	ended  chan *child // receives the first component that ended
}

// Main runs the node. It returns only on a failure: a node is turned off by killing it.
func Main(spec Spec, log *slog.Logger) error {
	if os.Getpid() != 1 {
		return errors.New("the node is not the first process of a PID namespace: start it with dev/lab")
	}
	n := &node{Spec: spec, log: log, reaper: newReaper(), ended: make(chan *child, 1)}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, errors.New("start timeout exceeded"))
	defer cancel()
	if err := n.boot(ctx); err != nil {
		return err
	}
	n.log.Info("all components are running")
	go n.keepLogs()
	return failure(<-n.ended)
}

func failure(c *child) error {
	return fmt.Errorf("%s ended: %s", c.name, describe(c.status))
}

// boot starts all components. Components that do not depend on each other start at the same time.
func (n *node) boot(ctx context.Context) error {
	if err := n.become(); err != nil {
		return err
	}
	if err := n.connect(ctx, func(ctx context.Context, command ...string) error {
		return n.reaper.run(ctx, n.logOf("node"), n.env(), command...)
	}); err != nil {
		return err
	}
	if err := n.configure(); err != nil {
		return err
	}
	n.log.Info("network is up", "address", n.Address)
	steps, ctx := errgroup.WithContext(ctx)
	runtime := make(chan struct{})
	steps.Go(func() error {
		defer close(runtime)
		return n.startRuntime(ctx)
	})
	steps.Go(func() error {
		if err := n.startServer(ctx); err != nil {
			return err
		}
		if err := n.launch(n.controllerManager(), n.scheduler(), n.proxy()); err != nil {
			return err
		}
		<-runtime
		if err := ctx.Err(); err != nil {
			return err // startRuntime has failed, and its error is returned by the other goroutine
		}
		return n.launch(n.nodeAgent())
	})
	return steps.Wait()
}

// startServer starts etcd and the API server, and returns when the API server is ready.
func (n *node) startServer(ctx context.Context) error {
	if err := n.launch(n.etcd(), n.apiServer()); err != nil {
		return err
	}
	ready, err := n.readiness()
	if err != nil {
		return err
	}
	if err := n.await(ctx, ready); err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	n.log.Info("kube-apiserver is ready")
	return nil
}

// startRuntime starts containerd and imports the image archives.
func (n *node) startRuntime(ctx context.Context) error {
	path, err := exec.LookPath("containerd")
	if err != nil {
		return fmt.Errorf("finding containerd: %w", err)
	}
	if err := n.launch(program{name: "containerd", path: path, args: []string{"--config", n.in(fileContainerd)}, env: n.env(), log: n.logOf("containerd")}); err != nil {
		return err
	}
	ctr := func(ctx context.Context, args ...string) error {
		return n.reaper.run(ctx, n.logOf("ctr"), n.env(), append([]string{"ctr", "--address", socket, "--namespace", "k8s.io"}, args...)...)
	}
	if err := n.await(ctx, func(ctx context.Context) error { return answers(ctx, socket) }); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	for _, archive := range n.Archives {
		if n.has(archive) {
			continue
		}
		if err := ctr(ctx, "images", "import", "--snapshotter", n.Snapshotter, archive); err != nil {
			return fmt.Errorf("importing image archive %s: %w", archive, err)
		}
		if err := os.WriteFile(n.imported(archive), nil, 0o600); err != nil {
			return fmt.Errorf("recording the import of %s: %w", archive, err)
		}
	}
	n.log.Info("containerd is ready")
	return nil
}

// imported returns the path of the file that marks an archive as imported, so that the next start skips the
// import.
func (n *node) imported(archive string) string {
	return n.in("imported-" + filepath.Base(archive))
}

func (n *node) has(archive string) bool {
	_, err := os.Stat(n.imported(archive))
	return err == nil
}

// launch starts components. When one of them ends, the node ends.
func (n *node) launch(programs ...program) error {
	for _, p := range programs {
		c, err := n.reaper.start(p)
		if err != nil {
			return err
		}
		go func() {
			<-c.done
			select {
			case n.ended <- c:
			default: // another component has ended before
			}
		}()
	}
	return nil
}

// await calls ready until it returns nil. It fails when a component ends.
func (n *node) await(ctx context.Context, ready func(context.Context) error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case c := <-n.ended:
			return failure(c)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// readiness returns a function that reads the API server's /readyz as the admin.
func (n *node) readiness() (func(context.Context) error, error) {
	token, err := pki.AdminToken(n.Dir)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(n.in(pki.FileCA))
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/readyz", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }() // only the status is read
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}, nil
}
