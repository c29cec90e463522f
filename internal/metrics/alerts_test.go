package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// span is the time between the two scrapes of a scenario; dev/alerts evaluates the rules over it.
const span = 2 * time.Hour

// target is a process that is scraped: at the beginning of a scenario, and at its end, when time has passed and
// things have happened.
type target struct {
	name     string
	leads    bool
	lease    string
	world    *world // of a leader
	hub      *Hub
	agent    *Agent
	requests map[string]float64 // by code, until the end
}

// The files of testdata/alerts are scrapes of a healthy and of a failing hub. The module dev/alerts loads them into
// Prometheus' own engine and checks which alerts fire.
func TestScrapesForAlerts_MatchTheGoldens(t *testing.T) {
	for scenario, make := range map[string]func(at time.Time) []target{
		"healthy": healthy, "failing": failing, "leaderless": leaderless,
	} {
		for moment, at := range map[string]time.Time{"start": noon, "end": noon.Add(span)} {
			for _, target := range make(at) {
				golden.Expect(t, fmt.Sprintf("alerts/%s.%s.%s.prom", scenario, target.name, moment), target.scrape(t))
			}
		}
	}
}

func (g target) scrape(t *testing.T) string {
	t.Helper()
	p := newProcess("v1.2.3", g.lease, g.leads)
	for code, n := range g.requests {
		p.requests.WithLabelValues(code, "GET", "10.0.0.1:6443").Add(n)
	}
	if g.world != nil {
		p.Registry().MustRegister(Collectors(g.world.sources())...)
	}
	if g.hub != nil {
		p.Registry().MustRegister(g.hub)
	}
	if g.agent != nil {
		p.Registry().MustRegister(g.agent)
	}
	return metricstest.Scrape(t, p.Registry())
}

const (
	hubLease   = "fleet-agentmanagement-lock"
	shardLease = "fleet-controller-leader-election-shard-a"
	agentLease = "fleet-agent"
)

// later says whether it is the end of the scenario.
func later(at time.Time) bool { return at.After(noon) }

// healthy is a hub with two replicas and a shard, and a cluster whose agent reports on time.
func healthy(at time.Time) []target {
	hub, standby := NewHub(), NewHub()
	agent := NewAgent(func() time.Time { return at })
	agent.Stage(registering.Use)
	agent.Credential(dayLong(at.Add(-17 * time.Hour))) // it is renewed within eighteen hours
	agent.Heartbeat(at.Add(-time.Minute), nil)
	agent.Watching(func() []*fleet.BundleDeployment {
		return []*fleet.BundleDeployment{{Status: fleet.BundleDeploymentStatus{Ready: true, NonModified: true}}}
	})
	requests := map[string]float64{"200": 100, "500": 1}
	if later(at) {
		requests = map[string]float64{"200": 10000, "500": 10}
		hub.Registration(OutcomeGranted)
		hub.Stage(StageCredential, 100*time.Millisecond)
		hub.Import(OutcomeSucceeded, time.Second)
		for range 8 {
			agent.Heartbeat(at.Add(-time.Minute), nil)
			agent.Deployed(OutcomeSucceeded, time.Second)
		}
	}
	w := &world{now: at, clusters: []*fleet.Cluster{aCluster("east", at.Add(-time.Minute))}, heartbeats: Heartbeats{Fresh: 1}}
	w.requests = aWorld().requests[:2] // the granted ones
	w.bundles = aWorld().bundles[1:]   // the one that is ready
	return []target{
		{name: "hub-1", lease: hubLease, leads: true, world: w, hub: hub, requests: requests},
		{name: "hub-2", lease: hubLease, hub: standby, requests: requests},
		{name: "shard-1", lease: shardLease, leads: true, hub: NewHub(), requests: requests},
		{name: "agent-1", lease: agentLease, leads: true, agent: agent, requests: requests},
	}
}

// dayLong is a token that was created at a time, with the default lifetime.
func dayLong(created time.Time) string {
	return token(fmt.Sprintf(`"iat":%d,"exp":%d`, created.Unix(), created.Add(24*time.Hour).Unix()))
}

func aCluster(name string, seen time.Time) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: meta("fleet-default", name), Status: fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: metav1.NewTime(seen)}, Conditions: ready()}}
}

// failing has one of each trouble.
func failing(at time.Time) []target {
	hub := NewHub()
	agent := NewAgent(func() time.Time { return at })
	agent.Stage(registering.Use)
	agent.Credential(dayLong(noon.Add(-21 * time.Hour)))
	lost := NewAgent(func() time.Time { return at })
	lost.Stage(registering.AwaitBootstrap)
	requests := map[string]float64{"200": 100, "<error>": 0}
	if later(at) {
		requests = map[string]float64{"200": 200, "<error>": 100}
		for range 20 {
			hub.Registration(OutcomeRejected)
			hub.Stage(StageRights, 2*time.Minute)
			agent.Deployed(OutcomeRetried, time.Minute)
		}
		for range 60 {
			agent.Heartbeat(at, fmt.Errorf("no"))
		}
	}
	w := aWorld()
	w.now = at
	silent := aCluster("silent", noon.Add(-time.Hour))
	silent.Status.Display.State = state.WaitCheckIn
	w.heartbeats = Heartbeats{Fresh: 1, Stale: 1, Never: 2}
	w.clusters = append(w.clusters, silent, &fleet.Cluster{
		ObjectMeta: meta("fleet-default", "new"), Status: fleet.ClusterStatus{Display: fleet.ClusterDisplay{State: state.WaitCheckIn}},
	})
	w.clusters[0].Status.Agent.LastSeen = metav1.NewTime(at.Add(-time.Minute))
	w.clusters[len(w.clusters)-1].Name = "newer"
	w.tokens = []*fleet.ClusterRegistrationToken{{ObjectMeta: meta("fleet-default", "t"), Status: fleet.ClusterRegistrationTokenStatus{
		Conditions: []genericcondition.GenericCondition{falseCondition(conditions.Ready, conditions.ReasonSecretNameTaken)},
	}}}
	return []target{
		{name: "hub-1", lease: hubLease, leads: true, world: w, hub: hub, requests: requests},
		{name: "agent-1", lease: agentLease, leads: true, agent: agent, requests: requests},
		{name: "agent-2", lease: agentLease, leads: true, agent: lost, requests: requests},
	}
}

// leaderless is a hub none of whose replicas gets the lease, nor that of its shard.
func leaderless(time.Time) []target {
	return []target{
		{name: "hub-1", lease: hubLease, hub: NewHub()}, {name: "hub-2", lease: hubLease, hub: NewHub()},
		{name: "shard-1", lease: shardLease, hub: NewHub()},
	}
}
