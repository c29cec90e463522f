package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/observer"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// controllerAccount is the controller's ServiceAccount.
	controllerAccount = "system:serviceaccount:" + names.SystemNamespace + ":fleet-controller"
	// userAgent is the start of the user agent of the measurement's own clients.
	userAgent = "fleet-bench"
)

// Options configures Start.
type Options struct {
	// Binaries is the directory of the product's executables. If it is empty, they are built.
	Binaries string
	// Logs is the directory in which the logs of all components are kept. If it is empty, they are kept after an error.
	Logs string
	// Downstreams are the names of further clusters.
	Downstreams []string
	// Workspaces is the number of workspaces whose tokens agents use. Zero means one.
	Workspaces int
	// ChartValues are the values of the hub's chart.
	ChartValues map[string]any
	// Quiet is the time without writes after which the hub is at rest. Patience limits each step.
	Quiet, Patience time.Duration
	Clock           func() time.Time
	Progress        io.Writer
}

// Hub is a hub with the product.
type Hub struct {
	Options
	World *framework.World
	// AgentValues are the values with which agents register, for each workspace. Those of framework.Workspace are the first.
	AgentValues []protocol.Values
	// Client is a client of the measurement, whose requests are not counted as costs.
	Client   *client.Client
	Observer *observer.Observer
	// Whose returns the sender of a request in the audit log.
	Whose audit.Classifier

	began   time.Time
	scratch string
	log     *audit.Log
}

// Start starts a hub with the product, waits until its own cluster is registered and there are no more writes.
func Start(ctx context.Context, o Options) (*Hub, error) {
	h := &Hub{Options: o, began: o.Clock()}
	h.Whose = audit.Classifier{Controller: controllerAccount, Workspaces: o.workspaces(), Played: swarm.UserAgent, Agent: userAgent}
	if err := h.startWorld(ctx); err != nil {
		return nil, errors.Join(err, h.stop())
	}
	if err := h.install(ctx); err != nil {
		return nil, errors.Join(h.withLogs(err), h.stop())
	}
	return h, nil
}

// Say prints a line of progress.
func (h *Hub) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(h.Progress, "%7.1fs  %s\n", h.Clock().Sub(h.began).Seconds(), fmt.Sprintf(format, args...)) // a failed write cannot be reported
}

// withLogs adds the log directory to an error.
func (h *Hub) withLogs(err error) error {
	return fmt.Errorf("%w\nlogs: %s", err, h.World.LogDir)
}

func (h *Hub) startWorld(ctx context.Context) error {
	var err error
	if h.scratch, err = os.MkdirTemp("", "fleet-bench-"); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	policy := filepath.Join(h.scratch, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(audit.Policy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	binaries, err := h.executables()
	if err != nil {
		return err
	}
	h.World, err = framework.Start(ctx, framework.Options{
		Binaries: binaries, Downstreams: h.Downstreams, Progress: h.Say, LogDir: h.Logs, Audit: true, Stock: true,
		APIServerArgs: func(string) []string {
			return []string{"--audit-policy-file=" + policy, "--enable-admission-plugins=NodeRestriction"}
		},
	})
	return err
}

// executables returns the paths of the product's executables, or nil to build them.
func (h *Hub) executables() (map[string]string, error) {
	if h.Binaries == "" {
		return nil, nil
	}
	folder, err := filepath.Abs(h.Binaries)
	if err != nil {
		return nil, fmt.Errorf("finding the binaries: %w", err)
	}
	found := map[string]string{}
	for _, name := range []string{"fleetcontroller", "fleetagent"} {
		found[name] = filepath.Join(folder, name)
		if _, err := os.Stat(found[name]); err != nil {
			return nil, fmt.Errorf("finding the binaries: %w", err)
		}
	}
	return found, nil
}

func (h *Hub) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.Patience)
	defer cancel()
	h.Say("helm install fleet, with the chart's defaults")
	if err := h.World.InstallHub(ctx, h.ChartValues); err != nil {
		return err
	}
	local, err := h.World.Joined(ctx, framework.LocalWorkspace, "the hub's own cluster", framework.Named("local"))
	if err != nil {
		return err
	}
	if _, _, err := h.World.Managed(ctx, framework.HubName, local); err != nil {
		return err
	}
	if err := h.createTokens(ctx); err != nil {
		return err
	}
	if h.log, err = audit.NewLog(h.World.Plane.Hub.AuditLog); err != nil {
		return err
	}
	config := rest.CopyConfig(h.World.Plane.Hub.Config())
	config.UserAgent = userAgent
	if h.Client, err = client.New(config); err != nil {
		return err
	}
	h.Observer = observer.Start(h.Client, h.Clock)
	_, err = h.UntilQuiet(ctx)
	return err
}

// workspaces returns the names of the workspaces.
func (o Options) workspaces() []string {
	all := []string{framework.Workspace}
	for n := 2; n <= o.Workspaces; n++ {
		all = append(all, fmt.Sprintf("%s-%d", framework.Workspace, n))
	}
	return all
}

// createTokens creates the workspaces and a token in each.
func (h *Hub) createTokens(ctx context.Context) error {
	for _, workspace := range h.workspaces() {
		if err := h.World.Hub.EnsureNamespace(ctx, workspace); err != nil {
			return err
		}
		values, err := h.World.TokenValuesOf(ctx, workspace, "bench")
		if err != nil {
			return err
		}
		of, err := swarm.Values(values)
		if err != nil {
			return err
		}
		h.AgentValues = append(h.AgentValues, of)
	}
	return nil
}

// End stops the hub. It keeps the logs after an error, or if the user requested them.
func (h *Hub) End(err error) error {
	if err != nil {
		err = h.withLogs(err)
	}
	err = errors.Join(err, h.stop())
	if err == nil && h.Logs == "" {
		err = h.World.RemoveLogs()
	}
	return err
}

func (h *Hub) stop() error {
	if h.Observer != nil {
		h.Observer.Stop()
	}
	var err error
	if h.World != nil {
		err = h.World.Stop()
	}
	return errors.Join(err, os.RemoveAll(h.scratch))
}
