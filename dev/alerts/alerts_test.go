package alerts

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	rulesFile = "../../docs/monitoring/alerts.yaml"
	dashboard = "../../docs/monitoring/dashboard.json"
	page      = "../../docs/monitoring.md"
)

// rules returns the alert rules. It parses them as Prometheus does, so that rules that Prometheus rejects fail
// the test.
func rules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false)
	for _, err := range errs {
		t.Fatal(err)
	}
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("found %d rules", len(all))
	}
	return all
}

func TestScenario_FiresOnlyItsAlerts(t *testing.T) {
	scenarios := map[string]struct {
		scrapes   string                // by default, those of the healthy hub
		values    map[string][2]float64 // of some series instead of those in the scrapes, at the beginning and at the end
		more      int                   // so many more clusters
		seen      [2]time.Duration      // after the beginning: their last heartbeat, at the beginning and at the end
		interrupt string                // the target that answers only every fifth scrape
		fire      []string              // all other rules must not fire
	}{
		"healthy": {},
		"failing": {scrapes: "failing", fire: []string{
			"FleetAPIRequestsFail", "FleetAgentCredentialExpires", "FleetAgentDeploysFail", "FleetAgentHeartbeatsFail", "FleetAgentNeverReported",
			"FleetAgentNotRegistered", "FleetAgentSilent", "FleetBundleDeploymentNotApplied", "FleetBundleFailed", "FleetBundleNotReady",
			"FleetImportsFail",
			"FleetRegistrationPending", "FleetRegistrationsRejected", "FleetRegistrationsSlow", "FleetTrouble",
		}},
		"leaderless": {scrapes: "leaderless", fire: []string{"FleetNoLeader", "FleetShardNoLeader"}},
		"agent restarted while it cannot reach the hub": {values: map[string][2]float64{
			`fleet_agent_stage{stage="Use"}`:                    {0, 0},
			`fleet_agent_stage{stage="Await"}`:                  {1, 1},
			`fleet_agent_heartbeats_total{outcome="succeeded"}`: {0, 0},
		}, fire: []string{"FleetAgentNotRegistered"}},
		"deployments fail permanently": {values: map[string][2]float64{
			`fleet_bundle_not_ready{name="ready"}`:                        {1, 1},
			`fleet_agent_deploy_duration_seconds_count{outcome="failed"}`: {0, 8}, // every 15 minutes
		}, fire: []string{"FleetAgentDeploysFail", "FleetBundleNotReady"}},
		"bundle waits for a missing object": {values: map[string][2]float64{
			`fleet_agent_bundledeployments{state="ErrApplied"}`:            {1, 1},
			`fleet_agent_deploy_duration_seconds_count{outcome="retried"}`: {0, 8}, // every 15 minutes
		}, fire: []string{"FleetAgentDeploysFail"}},
		"deployment failed permanently once": {values: map[string][2]float64{
			`fleet_agent_deploy_duration_seconds_count{outcome="failed"}`: {0, 2},
		}},
		"objects stay modified": {values: map[string][2]float64{
			`fleet_bundle_modified{name="ready"}`: {1, 1},
		}, fire: []string{"FleetBundleNotReady"}},
		"one cluster of five is silent": {values: map[string][2]float64{
			`fleet_clusters{heartbeat="fresh"}`: {4, 4}, `fleet_clusters{heartbeat="stale"}`: {1, 1},
		}},
		"four clusters of twenty are silent": {values: map[string][2]float64{
			`fleet_clusters{heartbeat="fresh"}`: {16, 16}, `fleet_clusters{heartbeat="stale"}`: {4, 4},
		}, fire: []string{"FleetManyAgentsSilent"}},
		"hub restarts while all agents are silent": {values: map[string][2]float64{
			`fleet_clusters{heartbeat="fresh"}`: {20, 20},
		}, more: 4, fire: []string{"FleetManyAgentsSilent"}},
		"hub restarts while three agents are silent": {values: map[string][2]float64{
			`fleet_clusters{heartbeat="fresh"}`: {20, 20},
		}, more: 3},
		"clocks of four agents are hours slow": {values: map[string][2]float64{
			`fleet_clusters{heartbeat="fresh"}`: {20, 20},
		}, more: 4, seen: [2]time.Duration{-3 * time.Hour, -3*time.Hour + span}},
		"agent crashes": {interrupt: "agent-1", fire: []string{"FleetProcessDown"}},
	}
	shown := map[string]bool{}
	for name, test := range scenarios {
		t.Run(name, func(t *testing.T) {
			storage := load(t, cmp.Or(test.scrapes, "healthy"))
			for selector, values := range test.values {
				storage.set(t, selector, values[0], values[1])
			}
			storage.addClusters(test.more, test.seen)
			storage.interrupt(test.interrupt)
			var fire []string
			for _, rule := range rules(t) {
				if len(firing(t, storage, rule)) > 0 {
					fire = append(fire, rule.Alert)
					shown[rule.Alert] = true
				}
			}
			slices.Sort(fire)
			if !slices.Equal(fire, test.fire) {
				t.Errorf("fire: %v\nwant: %v", fire, test.fire)
			}
		})
	}
	for _, rule := range rules(t) {
		if !shown[rule.Alert] {
			t.Errorf("no scenario fires alert %s", rule.Alert)
		}
	}
}

// The metrics of the hub have a label namespace, as the target has.
func TestAlerts_NameTheWorkspace(t *testing.T) {
	storage := load(t, "failing")
	want := map[string][2]string{ // the label that has the workspace, and its value
		"FleetAgentSilent":                {"namespace", "fleet-default"},
		"FleetBundleFailed":               {"namespace", "fleet-default"},
		"FleetBundleDeploymentNotApplied": {"cluster_namespace", "fleet-default"},
	}
	found := 0
	for _, rule := range rules(t) {
		label, ok := want[rule.Alert]
		if !ok {
			continue
		}
		found++
		alerts := firing(t, storage, rule)
		if len(alerts) == 0 {
			t.Errorf("%s does not fire", rule.Alert)
		}
		for _, alert := range alerts {
			if alert.Get(label[0]) != label[1] {
				t.Errorf("%s: labels %s, want %s=%q", rule.Alert, alert, label[0], label[1])
			}
		}
	}
	if found != len(want) {
		t.Errorf("found %d of %d rules", found, len(want))
	}
}

// firing returns the labels of the alerts of a rule that fire at the end of a scenario: its expression has been true
// with the same labels at every step of the rule's for-period.
func firing(t *testing.T, storage *memory, rule rulefmt.Rule) (alerts []labels.Labels) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	end := begin.Add(span)
	held := map[string]int{}
	steps := 0
	var last promql.Vector
	for at := end.Add(-time.Duration(rule.For)); !at.After(end); at = at.Add(step) {
		steps++
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, at)
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		vector, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		for _, series := range vector {
			held[series.Metric.String()]++
		}
		last = slices.Clone(vector)
		query.Close()
	}
	for _, series := range last {
		if held[series.Metric.String()] == steps {
			alerts = append(alerts, series.Metric)
		}
	}
	return alerts
}

func TestEveryRule_HasSeveritySummaryAndDescription(t *testing.T) {
	for _, rule := range rules(t) {
		severity := rule.Labels["severity"]
		if severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", rule.Alert, severity)
		}
		if rule.Annotations["summary"] == "" || len(rule.Annotations["description"]) < 40 {
			t.Errorf("annotations of %s are too short: %q, %q", rule.Alert, rule.Annotations["summary"], rule.Annotations["description"])
		}
	}
}

// documented returns the metrics in docs/monitoring.md. A test of internal/metrics generates that list from the
// code.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (gauge|counter|histogram) \\|").FindAllStringSubmatch(string(text), -1) {
		found[row[1]] = true
		if row[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				found[row[1]+suffix] = true
			}
		}
	}
	if len(found) < 50 {
		t.Fatalf("found %d metrics in %s", len(found), page)
	}
	return found
}

// expectDocumented parses an expression and checks that its metrics are documented.
func expectDocumented(t *testing.T, where, expression string, known map[string]bool) {
	t.Helper()
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !known[selector.Name] && selector.Name != "up" { // Prometheus makes it
			t.Errorf("%s: metric %s is not documented", where, selector.Name)
		}
		return nil
	})
}

func TestRules_UseDocumentedMetrics(t *testing.T) {
	known := documented(t)
	for _, rule := range rules(t) {
		expectDocumented(t, rule.Alert, rule.Expr, known)
	}
}

func TestDashboard_UsesDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, RefID, LegendFormat string }
	}
	var board struct {
		Title, UID string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Type, Query, Definition string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" || len(board.Panels) < 10 {
		t.Errorf("%q, %q: %d panels", board.Title, board.UID, len(board.Panels))
	}
	known := documented(t)
	seen := map[int]bool{}
	for _, p := range board.Panels {
		if seen[p.ID] || p.Title == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q has a wrong position or ID", p.ID, p.Title)
		}
		seen[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			expectDocumented(t, p.Title, variables(target.Expr), known)
		}
	}
}

// variables replaces Grafana's variables by values.
func variables(expression string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$workspace", "fleet-default", "$job", "fleet").Replace(expression)
}
