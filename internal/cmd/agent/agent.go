// Package agent implements the command fleetagent, the agent of one downstream cluster.
//
//	flags, environment ─► health and metrics ─► leader election ─► register ─► heartbeat
//	                                                                       └─► deploy
package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/companion"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/deploy"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/footprint"
	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/clientset"
	"github.com/fleet-hub/fleet/internal/leader"
	"github.com/fleet-hub/fleet/internal/logging"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register"
	"github.com/fleet-hub/fleet/internal/register/facts"
	"github.com/fleet-hub/fleet/internal/register/heartbeat"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// factsPatience is how long the first heartbeat waits for the facts about the cluster. Reading them takes
// milliseconds. Facts that arrive later are sent minutes later.
const factsPatience = time.Second

// New returns the command. It writes its log to out.
func New(environment env.Environment, out io.Writer) *cobra.Command {
	return program(environment, out, run)
}

func program(environment env.Environment, out io.Writer, work func(context.Context, env.Agent, io.Writer) error) *cobra.Command {
	var options env.Agent
	command := &cobra.Command{
		Use:   "fleetagent",
		Short: "Registers this cluster with a hub and deploys the hub's bundles to it",
		Args:  cobra.NoArgs,
		// main prints the error, once and without the usage.
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.Complete(command.Flags(), environment); err != nil {
				return err
			}
			if err := env.OwnDirectly(environment, os.Setenv); err != nil { // before a client is created
				return err
			}
			return work(command.Context(), options, out)
		},
	}
	options.Bind(command.Flags())
	companion.IgnoreFlags(command.Flags())
	// Containers of older charts, which this process replaces.
	companion.Add(command, out,
		companion.Command{Use: "register", Why: "fleetagent registers the cluster when it starts", Ends: true},
		companion.Command{Use: "clusterstatus", Why: "fleetagent reports the cluster's status"},
	)
	return command
}

// process contains the shared state of one agent process.
type process struct {
	options env.Agent
	own     *rest.Config
	log     *slog.Logger
	clock   func() time.Time
	// fence refuses writes of the leader while another replica may lead.
	fence   *leader.Fence
	started time.Time
	ready   *readiness
	metrics *metrics.Agent
	// facts are the facts about the cluster for the heartbeat.
	facts *facts.Watcher
	// pulse is shared by all identities: see heartbeat.Pulse.
	pulse heartbeat.Pulse
}

// run works until ctx ends. The end of ctx is not an error.
func run(ctx context.Context, options env.Agent, out io.Writer) error {
	clock := time.Now //nolint:forbidigo // the agent's only clock is created here
	lines := logging.Options{Writer: out, Debug: options.Debug, Level: options.DebugLevel, JSON: options.LogFormat == env.LogJSON}
	p := &process{
		options: options, log: logging.New(lines), clock: clock, fence: leader.NewFence(clock), started: clock(),
		ready: &readiness{state: &health.State{}}, metrics: metrics.NewAgent(clock),
	}
	logging.Bridge(p.log, lines)
	measured := metrics.NewProcess(version.Version, names.Agent, !options.LeaderElect)
	measured.Registry().MustRegister(p.metrics)
	listening, err := health.Start(ctx, health.Options{
		HealthAddress: options.HealthAddress, MetricsAddress: options.MetricsAddress,
		State: p.ready.state, Gatherer: measured.Registry(), Log: p.log,
	})
	if err != nil {
		return err
	}
	resting, stop := context.WithCancel(ctx)
	defer stop()
	go footprint.Keep(resting)
	go footprint.Limit(resting)
	p.log.Info("starting", "version", version.Version, "health", listening.Health, "metrics", listening.Metrics)
	own, err := kube.LoadOwn(options.Kubeconfig)
	if err != nil {
		return err
	}
	p.own = own.Config
	measured.OwnHost(own.Config.Host)
	if err := p.lead(ctx, p.work); err != nil && ctx.Err() == nil {
		return err
	}
	p.log.Info("completed")
	return nil
}

// lead works while this replica is the leader.
func (p *process) lead(ctx context.Context, work func(context.Context) error) error {
	if !p.options.LeaderElect {
		return work(ctx)
	}
	p.ready.waiting()
	return leader.Lead(ctx, leader.Options{
		Config:        p.own,
		Namespace:     p.options.Namespace,
		Name:          names.Agent,
		Identity:      p.options.Identity,
		LeaseDuration: p.options.Election.LeaseDuration,
		RenewDeadline: p.options.Election.RenewDeadline,
		RetryPeriod:   p.options.Election.RetryPeriod,
		Fence:         p.fence,
		Log:           p.log,
		Predecessors:  leader.EarlierProcesses(p.options.Identity, names.Agent),
		OnStandby:     p.ready.standby,
		OnBlocked:     p.blocked,
	}, work)
}

// blocked reports why this process cannot acquire the Lease, although no other process leads.
func (p *process) blocked(lease string, err error) {
	reason := leader.Blocked(p.options.Namespace, lease, "this agent", "deploys nothing and sends no heartbeat", err)
	if p.ready.blocked(reason) {
		p.log.Error("the lease cannot be acquired", "error", reason)
	}
}

// work obtains an identity and serves with it. When the identity is lost, it continues with the next one.
func (p *process) work(ctx context.Context) error {
	p.ready.leading()
	local, err := clientset.New(p.fence.Guard(kube.RelistAfterOutage(kube.Watching(p.own))))
	if err != nil {
		return fmt.Errorf("building a client of this cluster: %w", err)
	}
	if p.facts, err = facts.New(facts.Options{Local: kube.Watching(p.own), AgentVersion: version.Version, Log: p.log}); err != nil {
		return err
	}
	looking, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { p.facts.Run(looking) })
	return register.Run(ctx, register.Options{
		Local:     local,
		Namespace: p.options.Namespace,
		Pod:       p.options.Hostname,
		Clock:     p.clock,
		Random:    rand.Reader,
		Log:       p.log,
		OnRenew:   p.metrics.Credential,
		OnStage: func(stage registering.Stage, reason string) {
			p.ready.stage(stage, reason)
			p.metrics.Stage(stage)
		},
	}, p.serve)
}

// serve does the agent's work with one identity. It ends with ctx, or with the first part that fails.
func (p *process) serve(ctx context.Context, session register.Session) error {
	p.metrics.Credential(session.Hub.BearerToken)
	session.Hub = p.fence.Guard(session.Hub)
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return p.beat(ctx, session) })
	parts.Go(func() error { return p.deploy(ctx, session) })
	return parts.Wait()
}

// beat sends heartbeats with the facts about the cluster.
func (p *process) beat(ctx context.Context, session register.Session) error {
	p.facts.Await(ctx, factsPatience) // normally they are known by then
	return heartbeat.Run(ctx, heartbeat.Options{
		Hub:              session.Hub,
		ClusterNamespace: session.ClusterNamespace,
		ClusterName:      session.ClusterName,
		AgentNamespace:   p.options.Namespace,
		Interval:         p.options.CheckinInterval,
		Facts:            p.facts.Facts,
		FactsChanged:     p.facts.Changed(),
		Status:           session.Status,
		Pulse:            &p.pulse,
		Clock:            p.clock,
		Random:           rand.Reader,
		Log:              p.log,
		OnBeat:           p.metrics.Heartbeat,
		OnFirst: func() {
			p.log.Info("first heartbeat accepted", "cluster", session.ClusterNamespace+"/"+session.ClusterName,
				"sinceStart", p.clock().Sub(p.started).Round(time.Millisecond).String())
		},
	})
}

// deploy applies the BundleDeployments of the hub to the cluster.
func (p *process) deploy(ctx context.Context, session register.Session) error {
	return deploy.Run(ctx, deploy.Options{
		Hub:                       session.Hub,
		Namespace:                 session.DeploymentNamespace,
		Local:                     p.fence.Guard(kube.Watching(p.own)),
		AgentNamespace:            p.options.Namespace,
		OwnBundle:                 names.AgentBundle(session.ClusterName),
		Scope:                     p.options.Scope,
		Workers:                   p.options.BundleDeploymentWorkers,
		GarbageCollectionInterval: max(0, session.Config.GarbageCollectionInterval.Duration),
		Journal:                   filepath.Join(os.TempDir(), "fleet-agent-"+p.options.Namespace),
		Log:                       p.log,
		Clock:                     p.clock,
		OnWatching: func(deployments func() []*fleet.BundleDeployment) {
			p.ready.watches()
			p.metrics.Watching(deployments)
		},
		OnDeploy: func(outcome outcome.Outcome, took time.Duration) { p.metrics.Deployed(string(outcome), took) },
	})
}
