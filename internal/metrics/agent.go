package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Outcomes of deploying a bundle, in addition to OutcomeSucceeded and OutcomeFailed.
const (
	// OutcomeRetried means that the deployment failed, but not permanently, and will be retried.
	OutcomeRetried = "retried"
)

func agentRegistrations() Definition {
	return Definition{
		Name: "fleet_agent_registrations_total", Type: Counter, Labels: []string{"outcome"},
		Help: "Registrations of the agent by outcome: succeeded, failed (only a change of its Secrets can help)",
	}
}

func agentStages() Definition {
	return Definition{
		Name: "fleet_agent_registration_stage_duration_seconds", Type: Histogram, Labels: []string{"stage"}, Buckets: latencyBuckets(),
		Help: "Seconds the agent stayed in a stage of its registration: Request, Await, AwaitBootstrap (see fleet_agent_stage)",
	}
}

func agentStage() Definition {
	return Definition{
		Name: "fleet_agent_stage", Type: Gauge, Labels: []string{"stage"},
		Help: "1 for the agent's stage, else 0: Standby (another replica leads), Request (creates a ClusterRegistration), Await (waits for the hub), AwaitBootstrap (needs Secret fleet-agent-bootstrap), GiveUp (exits, see its log), Use (registered)",
	}
}

func heartbeats() Definition {
	return Definition{
		Name: "fleet_agent_heartbeats_total", Type: Counter, Labels: []string{"outcome"},
		Help: "Heartbeats by outcome: succeeded, failed",
	}
}

func lastHeartbeat() Definition {
	return Definition{
		Name: "fleet_agent_last_heartbeat_timestamp_seconds", Type: Gauge,
		Help: "Time of the last heartbeat that the hub accepted, in seconds since 1970; absent before the first",
	}
}

func credentialExpiry() Definition {
	return Definition{
		Name: "fleet_agent_credential_expiry_timestamp_seconds", Type: Gauge,
		Help: "Time at which the credential in use expires, in seconds since 1970; +Inf if it does not expire; absent before the registration",
	}
}

func credentialLifetime() Definition {
	return Definition{
		Name: "fleet_agent_credential_lifetime_seconds", Type: Gauge,
		Help: "Seconds from the creation of the credential in use until it expires; absent if it does not expire, and before the registration",
	}
}

func deploys() Definition {
	return Definition{
		Name: "fleet_agent_deploy_duration_seconds", Type: Histogram, Labels: []string{"outcome"}, Buckets: latencyBuckets(),
		Help: "Seconds an attempt to deploy a bundle took, by outcome: succeeded, failed (permanently: retried every 15 minutes), retried (it failed and is retried sooner, or when a missing object exists)",
	}
}

func agentDeployments() Definition {
	return Definition{
		Name: "fleet_agent_bundledeployments", Type: Gauge, Labels: []string{"state"},
		Help: "BundleDeployments of this cluster by state; absent before they are known",
	}
}

func agentDefinitions() []Definition {
	return []Definition{
		agentStage(), agentRegistrations(), agentStages(), credentialExpiry(), credentialLifetime(), heartbeats(), lastHeartbeat(), deploys(), agentDeployments(),
	}
}

// standby is the stage of a replica that does not lead.
const standby = "Standby"

func agentStageNames() []string {
	return []string{
		standby, string(registering.Request), string(registering.Await), string(registering.AwaitBootstrap), string(registering.GiveUp), string(registering.Use),
	}
}

// Agent collects the metrics of the agent. It can be used before it is registered.
type Agent struct {
	registrations, heartbeats *prometheus.CounterVec
	stages, deploys           *prometheus.HistogramVec
	way                       *Stages

	mu    sync.Mutex
	stage string
	// registers means that the agent requests an identity. An agent that stored one waits for the hub's answer at each start.
	registers   bool
	beat        time.Time
	expiry      *float64
	lifetime    time.Duration
	deployments func() []*fleet.BundleDeployment
}

// NewAgent returns an Agent in stage Standby, with all counters at zero.
func NewAgent(clock func() time.Time) *Agent {
	a := &Agent{
		registrations: agentRegistrations().counter(), heartbeats: heartbeats().counter(),
		stages: agentStages().histogram(), deploys: deploys().histogram(), stage: standby,
	}
	a.way = NewStages(clock, func(stage string, took time.Duration) { a.stages.WithLabelValues(stage).Observe(took.Seconds()) })
	for _, outcome := range []string{OutcomeSucceeded, OutcomeFailed} {
		a.registrations.WithLabelValues(outcome)
		a.heartbeats.WithLabelValues(outcome)
	}
	for _, outcome := range []string{OutcomeSucceeded, OutcomeFailed, OutcomeRetried} {
		a.deploys.WithLabelValues(outcome)
	}
	for _, stage := range []registering.Stage{registering.Request, registering.Await, registering.AwaitBootstrap} {
		a.stages.WithLabelValues(string(stage))
	}
	return a
}

// Stage records the stage of the registration. An identity that was already stored at startup does not count as
// a registration.
func (a *Agent) Stage(stage registering.Stage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stage == string(stage) {
		return
	}
	answered := a.stage == string(registering.Await) && !a.registers
	a.stage = string(stage)
	switch stage {
	case registering.Use:
		if answered {
			a.way.Drop("")
		}
		if a.way.Arrive(""); a.registers {
			a.registrations.WithLabelValues(OutcomeSucceeded).Inc()
		}
		a.registers = false
		return
	case registering.Request:
		a.registers = true
	case registering.AwaitBootstrap, registering.GiveUp:
		a.registrations.WithLabelValues(OutcomeFailed).Inc()
	}
	if stage == registering.GiveUp {
		a.way.Drop("")
		return
	}
	a.way.Enter("", string(stage))
}

// Heartbeat counts a heartbeat. err is the error of the hub, or nil.
func (a *Agent) Heartbeat(at time.Time, err error) {
	if err != nil {
		a.heartbeats.WithLabelValues(OutcomeFailed).Inc()
		return
	}
	a.heartbeats.WithLabelValues(OutcomeSucceeded).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beat = at
}

// Deployed counts an attempt to deploy a bundle.
func (a *Agent) Deployed(outcome string, took time.Duration) {
	a.deploys.WithLabelValues(outcome).Observe(took.Seconds())
}

// Watching sets the function that lists the BundleDeployments at each scrape.
func (a *Agent) Watching(deployments func() []*fleet.BundleDeployment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deployments = deployments
}

// Credential sets the token in use. Only its expiry and its lifetime are stored. Text that is not a token has no expiry.
func (a *Agent) Credential(token string) {
	parsed, err := protocol.ParseAccountToken(token)
	renewal, _ := protocol.RenewalOf(token)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expiry, a.lifetime = nil, renewal.Lifetime
	if err == nil {
		end := endOf(parsed.Expires)
		a.expiry = &end
	}
}

// Describe sends the descriptions of the metrics.
func (a *Agent) Describe(out chan<- *prometheus.Desc) { describe(out, agentDefinitions()) }

// Collect sends the counters and the current values.
func (a *Agent) Collect(out chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{a.registrations, a.heartbeats, a.stages, a.deploys} {
		c.Collect(out)
	}
	a.mu.Lock()
	stage, beat, expiry, lifetime, list := a.stage, a.beat, a.expiry, a.lifetime, a.deployments
	a.mu.Unlock()
	for _, name := range agentStageNames() {
		out <- agentStage().now(oneIf(name == stage), name)
	}
	if !beat.IsZero() {
		out <- lastHeartbeat().now(float64(beat.Unix()))
	}
	if expiry != nil {
		out <- credentialExpiry().now(*expiry)
	}
	if lifetime > 0 {
		out <- credentialLifetime().now(lifetime.Seconds())
	}
	if list == nil {
		return
	}
	counts := map[string]int{}
	for _, deployment := range list() {
		counts[string(state.Of(deployment))]++
	}
	for _, name := range slices.Sorted(slices.Values(deploymentStates())) {
		out <- agentDeployments().now(float64(counts[name]), name)
	}
}
