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

// startTimeout bounds each step of a node's start. Some seconds are usual.
const startTimeout = 2 * time.Minute

// pollEvery is how often what starts is asked whether it answers.
const pollEvery = 20 * time.Millisecond

// node is a running one.
type node struct {
	Spec
	log    *slog.Logger
	reaper *reaper
	ended  chan *child // the first component that ended
}

// Main is the node's whole life. It returns why it ended, which is never wanted: a node is turned off by killing it.
func Main(spec Spec, log *slog.Logger) error {
	if os.Getpid() != 1 {
		return errors.New("a node has to be the first process of a PID namespace: start it with dev/lab")
	}
	n := &node{Spec: spec, log: log, reaper: newReaper(), ended: make(chan *child, 1)}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, errors.New("not in time"))
	defer cancel()
	if err := n.boot(ctx); err != nil {
		return err
	}
	n.log.Info("all components run")
	go n.keepLogs()
	return failure(<-n.ended)
}

func failure(c *child) error {
	return fmt.Errorf("%s ended: %s", c.name, describe(c.status))
}

// boot brings everything up. What does not need one another starts at the same time.
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
	n.log.Info("machine is up", "address", n.Address)
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
			return err // startRuntime has said why before
		}
		return n.launch(n.nodeAgent())
	})
	return steps.Wait()
}

// startServer returns when the API server answers.
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

// startRuntime returns when containerd answers and has the images.
func (n *node) startRuntime(ctx context.Context) error {
	path, err := exec.LookPath("containerd")
	if err != nil {
		return fmt.Errorf("looking for containerd: %w", err)
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
			return fmt.Errorf("importing an image: %w", err)
		}
		if err := os.WriteFile(n.imported(archive), nil, 0o600); err != nil {
			return fmt.Errorf("noting that %s is imported: %w", archive, err)
		}
	}
	n.log.Info("containerd is ready")
	return nil
}

// imported is the file that says that an archive was imported, for the next start.
func (n *node) imported(archive string) string {
	return n.in("imported-" + filepath.Base(archive))
}

func (n *node) has(archive string) bool {
	_, err := os.Stat(n.imported(archive))
	return err == nil
}

// launch starts components whose end is the node's.
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
			default: // not the first
			}
		}()
	}
	return nil
}

// await asks until it says nil, and fails when a component ends.
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

// readiness asks the API server as its admin.
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
		defer func() { _ = response.Body.Close() }() // only its status is read
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}, nil
}
