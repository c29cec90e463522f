package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/growth"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// controllerAccount is the controller's ServiceAccount.
	controllerAccount = "system:serviceaccount:" + names.SystemNamespace + ":fleet-controller"
	// benchAgent is the start of the user agent of the measurement's own clients.
	benchAgent = "fleet-bench"
	// pollEvery is the interval between two reads of the audit log.
	pollEvery = 250 * time.Millisecond
	// reportedResources is the number of objects that an agent reports for a Bundle.
	reportedResources = 10
)

// bench is a hub and the measurements on it.
type bench struct {
	options
	clock    func() time.Time
	say      func(format string, args ...any)
	scratch  string
	world    *framework.World
	values   protocol.Values
	log      *audit.Log
	who      audit.Classifier
	observer *observer
	swarm    *swarm.Swarm
	agents   []*swarm.Agent // agents that stay
	made     int            // number of client IDs in use
	bundles  []string       // Bundles that stay
	curve    growth.Curve
}

// start starts a hub with the product, waits until its own cluster is registered and there are no more writes.
func start(ctx context.Context, o options, clock func() time.Time, progress io.Writer) (*bench, error) {
	began := clock()
	b := &bench{options: o, clock: clock, say: func(format string, args ...any) {
		_, _ = fmt.Fprintf(progress, "%7.1fs  %s\n", clock().Sub(began).Seconds(), fmt.Sprintf(format, args...)) // a failed write cannot be reported
	}}
	b.who = audit.Classifier{Controller: controllerAccount, Workspace: framework.Workspace, Played: swarm.UserAgent, Agent: benchAgent}
	if err := b.startWorld(ctx); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	if err := b.startHub(ctx); err != nil {
		return nil, errors.Join(b.withLogs(err), b.stop())
	}
	return b, nil
}

// withLogs adds the log directory to an error.
func (b *bench) withLogs(err error) error {
	return fmt.Errorf("%w\nlogs: %s", err, b.world.LogDir)
}

func (b *bench) startWorld(ctx context.Context) error {
	var err error
	if b.scratch, err = os.MkdirTemp("", "fleet-bench-"); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	policy := filepath.Join(b.scratch, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(audit.Policy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	binaries, err := b.executables()
	if err != nil {
		return err
	}
	b.world, err = framework.Start(ctx, framework.Options{
		Binaries: binaries, Downstreams: b.downstreams, Progress: b.say, LogDir: b.logs, Audit: true, StockControllerLimits: true,
		APIServerArgs: func(string) []string {
			return []string{"--audit-policy-file=" + policy, "--enable-admission-plugins=NodeRestriction"}
		},
	})
	return err
}

// executables returns the paths of the product's executables, or nil to build them.
func (b *bench) executables() (map[string]string, error) {
	if b.binaries == "" {
		return nil, nil
	}
	folder, err := filepath.Abs(b.binaries)
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

func (b *bench) startHub(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	b.say("helm install fleet, with the chart's defaults")
	if err := b.world.InstallHub(ctx, b.hubValues()); err != nil {
		return err
	}
	local, err := b.world.Joined(ctx, framework.LocalWorkspace, "the hub's own cluster", framework.Named("local"))
	if err != nil {
		return err
	}
	if _, _, err := b.world.Managed(ctx, framework.HubName, local); err != nil {
		return err
	}
	values, err := b.world.TokenValues(ctx, "bench")
	if err != nil {
		return err
	}
	if b.values, err = swarm.Values(values); err != nil {
		return err
	}
	if b.log, err = audit.NewLog(b.world.Plane.Hub.AuditLog); err != nil {
		return err
	}
	if b.observer, err = observe(b.world.Plane.Hub.Config(), b.clock); err != nil {
		return err
	}
	b.swarm = swarm.New(swarm.Options{Values: b.values, AtOnce: b.atOnce, Resources: reportedResources, Clock: b.clock})
	_, err = b.untilQuiet(ctx)
	return err
}

// rareHeartbeats is the interval between two heartbeats of an agent if there are so many agents that they register longer
// than the default interval: the hub would never be quiet. Scenario idle counts heartbeats.
const rareHeartbeats = 24 * time.Hour

// isLarge reports whether there are so many agents.
func (o options) isLarge() bool { return 2*slices.Max(o.sizes) > env.DefaultMaxClustersPerToken }

// hubValues returns the values of the hub's chart. They are the defaults, but for the addresses of profiles, and with many
// agents for the limit of a token, the interval between heartbeats, and the readers of Contents, as docs/sizing.md advises.
func (o options) hubValues() map[string]any {
	values := map[string]any{}
	if o.profiles != "" {
		values["extraEnv"] = []any{map[string]any{"name": "FLEET_PROFILING_BIND_ADDRESS", "value": "127.0.0.1:0"}}
	}
	if o.isLarge() {
		values["controller"] = map[string]any{"maxClustersPerToken": 0, "contentReaders": "serviceaccounts"}
		values["agentCheckinInterval"] = rareHeartbeats.String()
	}
	return values
}

// end stops everything. It keeps the logs after an error, or if the user requested them.
func (b *bench) end(err error) error {
	if err != nil {
		err = b.withLogs(err)
	}
	err = errors.Join(err, b.stop())
	if err == nil && b.logs == "" {
		err = b.world.RemoveLogs()
	}
	return err
}

// stop stops the agents and the hub.
func (b *bench) stop() error {
	if b.swarm != nil {
		for _, a := range b.swarm.Agents() {
			a.Stop()
		}
	}
	if b.observer != nil {
		b.observer.stop()
	}
	var err error
	if b.world != nil {
		err = b.world.Stop()
	}
	return errors.Join(err, os.RemoveAll(b.scratch))
}

// untilQuiet counts the requests since now, or since the last call, until there was no write for a while.
func (b *bench) untilQuiet(ctx context.Context) (audit.Counts, error) {
	return b.count(ctx, b.isQuiet)
}

// count counts requests until done returns true. done gets the time of the last write, initially now.
func (b *bench) count(ctx context.Context, done func(lastWrite time.Time) bool) (audit.Counts, error) {
	counts := audit.Counts{}
	err := b.listen(ctx, func(e audit.Event) { counts.Add(b.who.Who(e), e) }, done)
	return counts, err
}

// eventsUntilQuiet returns all events since now, or since the last call, until there was no write for a while.
func (b *bench) eventsUntilQuiet(ctx context.Context) (events []audit.Event, err error) {
	err = b.listen(ctx, func(e audit.Event) { events = append(events, e) }, b.isQuiet)
	return events, err
}

func (b *bench) isQuiet(lastWrite time.Time) bool { return b.clock().Sub(lastWrite) >= b.quiet }

// listen passes events to hear until done returns true. done gets the time of the last write, initially now.
func (b *bench) listen(ctx context.Context, hear func(audit.Event), done func(lastWrite time.Time) bool) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	last := b.clock()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		events, err := b.log.Next()
		if err != nil {
			return err
		}
		for _, e := range events {
			hear(e)
			if e.Kind(b.who.Who(e)).IsWrite() && e.Received.After(last) {
				last = e.Received
			}
		}
		if done(last) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of writes: %w", context.Cause(ctx))
		}
	}
}
