package metrics

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// moved are the series that differ after do, counters and sums alike, without the buckets.
func moved(t *testing.T, c prometheus.Collector, do func()) []string {
	t.Helper()
	lines := func() map[string]bool {
		all := map[string]bool{}
		for line := range strings.Lines(exposition(t, c)) {
			if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
				all[strings.TrimSpace(line)] = true
			}
		}
		return all
	}
	before := lines()
	do()
	after := lines()
	maps.DeleteFunc(after, func(line string, _ bool) bool { return before[line] })
	return slices.Sorted(maps.Keys(after))
}

func expectMoved(t *testing.T, c prometheus.Collector, do func(), want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, moved(t, c, do)); diff != "" {
		t.Errorf("series that moved (-want +got):\n%s", diff)
	}
}

func TestHubCounters(t *testing.T) {
	tests := map[string]struct {
		do   func(*Hub)
		want []string
	}{
		"a granted registration":    {func(h *Hub) { h.Registration(OutcomeGranted) }, []string{`fleet_registrations_total{outcome="granted"} 1`}},
		"a rejected registration":   {func(h *Hub) { h.Registration(OutcomeRejected) }, []string{`fleet_registrations_total{outcome="rejected"} 1`}},
		"a superseded registration": {func(h *Hub) { h.Registration(OutcomeSuperseded) }, []string{`fleet_registrations_total{outcome="superseded"} 1`}},
		"an import: also a stage": {func(h *Hub) { h.Import(OutcomeSucceeded, 2*time.Second) }, []string{
			`fleet_imports_total{outcome="succeeded"} 1`,
			`fleet_registration_stage_duration_seconds_count{stage="import"} 1`,
			`fleet_registration_stage_duration_seconds_sum{stage="import"} 2`,
		}},
		"a failed import: not a stage, it would look fast": {func(h *Hub) { h.Import(OutcomeFailed, 2*time.Second) }, []string{`fleet_imports_total{outcome="failed"} 1`}},
		"a stage": {func(h *Hub) { h.Stage(StageRights, 250*time.Millisecond) }, []string{
			`fleet_registration_stage_duration_seconds_count{stage="rights"} 1`,
			`fleet_registration_stage_duration_seconds_sum{stage="rights"} 0.25`,
		}},
		"an Event": {func(h *Hub) { h.Event(EventLimited) }, []string{`fleet_events_total{outcome="limited"} 1`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := NewHub()
			expectMoved(t, h, func() { test.do(h) }, test.want...)
		})
	}
}

func TestCounters_StartAtZeroForEveryOutcome(t *testing.T) {
	golden.Expect(t, "hub-start.prom", exposition(t, NewHub()))
	golden.Expect(t, "agent-start.prom", exposition(t, NewAgent(func() time.Time { return noon })))
}

func TestAgentStages(t *testing.T) {
	const use, request, await, lost, giveUp = registering.Use, registering.Request, registering.Await, registering.AwaitBootstrap, registering.GiveUp
	tests := map[string]struct {
		stages []registering.Stage // a second each
		want   []string
	}{
		"a first registration": {[]registering.Stage{await, request, await, use}, []string{
			`fleet_agent_registration_stage_duration_seconds_count{stage="Await"} 2`,
			`fleet_agent_registration_stage_duration_seconds_count{stage="Request"} 1`,
			`fleet_agent_registration_stage_duration_seconds_sum{stage="Await"} 2`,
			`fleet_agent_registration_stage_duration_seconds_sum{stage="Request"} 1`,
			`fleet_agent_registrations_total{outcome="succeeded"} 1`,
			`fleet_agent_stage{stage="Standby"} 0`,
			`fleet_agent_stage{stage="Use"} 1`,
		}},
		"an existing identity is used": {[]registering.Stage{use}, []string{
			`fleet_agent_stage{stage="Standby"} 0`,
			`fleet_agent_stage{stage="Use"} 1`,
		}},
		"the hub accepts an existing identity": {[]registering.Stage{await, use}, []string{
			`fleet_agent_stage{stage="Standby"} 0`,
			`fleet_agent_stage{stage="Use"} 1`,
		}},
		"an outage after a registration": {[]registering.Stage{request, use, await, use}, []string{
			`fleet_agent_registration_stage_duration_seconds_count{stage="Request"} 1`,
			`fleet_agent_registration_stage_duration_seconds_sum{stage="Request"} 1`,
			`fleet_agent_registrations_total{outcome="succeeded"} 1`,
			`fleet_agent_stage{stage="Standby"} 0`,
			`fleet_agent_stage{stage="Use"} 1`,
		}},
		"a repeated stage changes nothing": {[]registering.Stage{request, request, request}, []string{
			`fleet_agent_stage{stage="Request"} 1`,
			`fleet_agent_stage{stage="Standby"} 0`,
		}},
		"a lost identity": {[]registering.Stage{use, lost, lost}, []string{
			`fleet_agent_registrations_total{outcome="failed"} 1`,
			`fleet_agent_stage{stage="AwaitBootstrap"} 1`,
			`fleet_agent_stage{stage="Standby"} 0`,
		}},
		"a lost identity that is replaced": {[]registering.Stage{use, lost, request, use}, []string{
			`fleet_agent_registration_stage_duration_seconds_count{stage="AwaitBootstrap"} 1`,
			`fleet_agent_registration_stage_duration_seconds_count{stage="Request"} 1`,
			`fleet_agent_registration_stage_duration_seconds_sum{stage="AwaitBootstrap"} 1`,
			`fleet_agent_registration_stage_duration_seconds_sum{stage="Request"} 1`,
			`fleet_agent_registrations_total{outcome="failed"} 1`,
			`fleet_agent_registrations_total{outcome="succeeded"} 1`,
			`fleet_agent_stage{stage="Standby"} 0`,
			`fleet_agent_stage{stage="Use"} 1`,
		}},
		"a lost identity that is accepted again": {[]registering.Stage{use, lost, use}, []string{
			`fleet_agent_registration_stage_duration_seconds_count{stage="AwaitBootstrap"} 1`,
			`fleet_agent_registration_stage_duration_seconds_sum{stage="AwaitBootstrap"} 1`,
			`fleet_agent_registrations_total{outcome="failed"} 1`,
			`fleet_agent_stage{stage="Standby"} 0`,
			`fleet_agent_stage{stage="Use"} 1`,
		}},
		"a registration that cannot succeed": {[]registering.Stage{request, giveUp}, []string{
			`fleet_agent_registrations_total{outcome="failed"} 1`,
			`fleet_agent_stage{stage="GiveUp"} 1`,
			`fleet_agent_stage{stage="Standby"} 0`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := noon
			a := NewAgent(func() time.Time { return now })
			expectMoved(t, a, func() {
				for _, stage := range test.stages {
					a.Stage(stage)
					now = now.Add(time.Second)
				}
			}, test.want...)
		})
	}
}

func TestAgentMetrics(t *testing.T) {
	tests := map[string]struct {
		do   func(*Agent)
		want []string
	}{
		"an accepted heartbeat": {func(a *Agent) { a.Heartbeat(noon, nil) }, []string{
			`fleet_agent_heartbeats_total{outcome="succeeded"} 1`,
			`fleet_agent_last_heartbeat_timestamp_seconds 1.7672688e+09`,
		}},
		"a failed heartbeat": {func(a *Agent) { a.Heartbeat(noon, errors.New("no")) }, []string{
			`fleet_agent_heartbeats_total{outcome="failed"} 1`,
		}},
		"a deployment": {func(a *Agent) { a.Deployed(OutcomeSucceeded, 3*time.Second) }, []string{
			`fleet_agent_deploy_duration_seconds_count{outcome="succeeded"} 1`,
			`fleet_agent_deploy_duration_seconds_sum{outcome="succeeded"} 3`,
		}},
		"a deployment that is retried": {func(a *Agent) { a.Deployed(OutcomeRetried, time.Second) }, []string{
			`fleet_agent_deploy_duration_seconds_count{outcome="retried"} 1`,
			`fleet_agent_deploy_duration_seconds_sum{outcome="retried"} 1`,
		}},
		"a credential that expires": {func(a *Agent) { a.Credential(token(`"exp":1767268800`)) }, []string{`fleet_agent_credential_expiry_timestamp_seconds 1.7672688e+09`}},
		"a credential with a lifetime": {func(a *Agent) { a.Credential(token(`"iat":1767225600,"exp":1767268800`)) }, []string{
			`fleet_agent_credential_expiry_timestamp_seconds 1.7672688e+09`, `fleet_agent_credential_lifetime_seconds 43200`,
		}},
		"a credential that does not expire":   {func(a *Agent) { a.Credential(token(`"iat":1`)) }, []string{`fleet_agent_credential_expiry_timestamp_seconds +Inf`}},
		"a credential that is not a token":    {func(a *Agent) { a.Credential("secret") }, nil},
		"no credential after an expiring one": {func(a *Agent) { a.Credential(token(`"exp":1767268800`)); a.Credential("") }, nil},
		"BundleDeployments by state, all states": {func(a *Agent) { a.Watching(func() []*fleet.BundleDeployment { return aWorld().deployments }) }, []string{
			`fleet_agent_bundledeployments{state="ErrApplied"} 0`,
			`fleet_agent_bundledeployments{state="Modified"} 0`,
			`fleet_agent_bundledeployments{state="NotReady"} 0`,
			`fleet_agent_bundledeployments{state="OutOfSync"} 0`,
			`fleet_agent_bundledeployments{state="Pending"} 0`,
			`fleet_agent_bundledeployments{state="Ready"} 0`,
			`fleet_agent_bundledeployments{state="WaitApplied"} 1`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := NewAgent(func() time.Time { return noon })
			expectMoved(t, a, func() { test.do(a) }, test.want...)
		})
	}
}

// token is an unsigned token of an account with a claim.
func token(claim string) string {
	return "e30." + base64url(`{`+claim+`,"kubernetes.io":{"namespace":"n","serviceaccount":{"name":"a","uid":"u"}}}`) + ".c2ln"
}
