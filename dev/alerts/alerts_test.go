package alerts

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	rulesFile = "../../docs/monitoring/alerts.yaml"
	dashboard = "../../docs/monitoring/dashboard.json"
	page      = "../../docs/monitoring.md"
)

// rules are read as Prometheus reads them: what it would refuse is an error.
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

func TestWhichAlertsFire(t *testing.T) {
	scenarios := map[string]struct {
		fire []string // all other rules keep quiet
	}{
		"healthy": {},
		"failing": {[]string{
			"FleetAPIRequestsFail", "FleetAgentCredentialEnds", "FleetAgentDeploysFail", "FleetAgentHeartbeatsFail", "FleetAgentNeverHeard",
			"FleetAgentNotRegistered", "FleetAgentSilent", "FleetBundleDeploymentWaits", "FleetBundleFailed", "FleetImportsFail",
			"FleetManyAgentsSilent", "FleetRegistrationPending", "FleetRegistrationsRejected", "FleetRegistrationsSlow", "FleetTrouble",
		}},
		"leaderless": {[]string{"FleetNobodyLeads", "FleetShardNobodyLeads"}},
	}
	shown := map[string]bool{}
	for scenario, test := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			storage := load(t, scenario)
			var fire []string
			for _, rule := range rules(t) {
				if fires(t, storage, rule) {
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
			t.Errorf("%s was not shown to fire", rule.Alert)
		}
	}
}

// fires says whether an alert fires at the end of a scenario: for one and the same set of labels its expression has
// held, at each step, for as long as the rule says.
func fires(t *testing.T, storage *memory, rule rulefmt.Rule) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	end := begin.Add(span)
	held := map[string]int{}
	steps := 0
	for at := end.Add(-time.Duration(rule.For)); !at.After(end); at = at.Add(step) {
		steps++
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, at)
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		for _, series := range vector {
			held[series.Metric.String()]++
		}
		query.Close()
	}
	for _, n := range held {
		if n == steps {
			return true
		}
	}
	return false
}

func TestEveryRuleSaysWhatToDo(t *testing.T) {
	for _, rule := range rules(t) {
		severity := rule.Labels["severity"]
		if severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", rule.Alert, severity)
		}
		if rule.Annotations["summary"] == "" || len(rule.Annotations["description"]) < 40 {
			t.Errorf("%s says too little: %q, %q", rule.Alert, rule.Annotations["summary"], rule.Annotations["description"])
		}
	}
}

// documented are the metrics that docs/monitoring.md lists, which a test of internal/metrics makes from the code.
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

// expectDocumented parses an expression and looks its metrics up.
func expectDocumented(t *testing.T, where, expression string, known map[string]bool) {
	t.Helper()
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !known[selector.Name] {
			t.Errorf("%s: metric %s is not documented", where, selector.Name)
		}
		return nil
	})
}

func TestTheRulesUseDocumentedMetrics(t *testing.T) {
	known := documented(t)
	for _, rule := range rules(t) {
		expectDocumented(t, rule.Alert, rule.Expr, known)
	}
}

func TestTheDashboard(t *testing.T) {
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
			t.Errorf("panel %d %q: its place or number is wrong", p.ID, p.Title)
		}
		seen[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			expectDocumented(t, p.Title, variables(target.Expr), known)
		}
	}
}

// variables puts something in the place of Grafana's.
func variables(expression string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$workspace", "fleet-default", "$job", "fleet").Replace(expression)
}
