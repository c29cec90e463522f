package metrics

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var updateDocs = flag.Bool("update-docs", false, "write the tables of docs/monitoring.md")

const page = "../../docs/monitoring.md"

// The tables of the page are between these two lines; the rest is written by hand.
const (
	begin = "<!-- made from internal/metrics; go test ./internal/metrics -update-docs -->\n"
	end   = "<!-- end of what is made -->\n"
)

func TestMonitoringPage_ListsEveryMetric(t *testing.T) {
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(got), begin)
	_, after, alsoFound := strings.Cut(rest, end)
	if !found || !alsoFound {
		t.Fatalf("%s has no place for the tables", page)
	}
	want := before + begin + tables() + end + after
	if *updateDocs {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		got = []byte(want)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/monitoring.md is not what the code has; run this test with -update-docs (-want +got):\n%s", diff)
	}
}

// group is a section of the page: the heading, the paragraph below it, and the metrics.
type group struct {
	title, text string
	definitions []Definition
}

func sections() []group {
	return []group{
		{"Bundles, clusters and groups", "Per object, from the leader's cache. The names, labels and meanings are the same as in Rancher Fleet. " +
			"Label `state` is the object's state. The metrics `…_state` have one series per state: 1 for the current state and 0 for the others.", stateDefinitions()},
		{"Clusters' agents and registrations", "From the leader's cache. Aggregated over all clusters where one series per cluster would be too many.", fleetDefinitions()},
		{"Work of the controllers", "Counted since the process started.", hubDefinitions()},
		{"The process", "For both processes, in addition to the metrics of the Go runtime, `go_…` and `process_…`.", processDefinitions()},
		{"Handlers of the hub's controllers", "", lassoDefinitions()},
		{"The agent", "", agentDefinitions()},
	}
}

func tables() string {
	var text strings.Builder
	for _, group := range sections() {
		text.WriteString("\n### " + group.title + "\n\n")
		if group.text != "" {
			text.WriteString(group.text + "\n\n")
		}
		text.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
		for _, d := range group.definitions {
			text.WriteString("| `" + d.Name + "` | " + string(d.Type) + " | " + strings.Join(d.Labels, ", ") + " | " + d.Help + " |\n")
		}
	}
	return text.String() + "\n"
}

func TestDefinitions_MatchTheScrape(t *testing.T) {
	hub, agent := NewHub(), NewAgent(func() time.Time { return noon })
	agent.Stage(registering.Use)
	agent.Credential(token(`"iat":1767225600,"exp":1767268800`))
	agent.Heartbeat(noon, nil)
	agent.Watching(func() []*fleet.BundleDeployment { return aWorld().deployments })
	tests := map[string]struct {
		collectors []prometheus.Collector
		want       []Definition
	}{
		"the controllers": {append(Collectors(aWorld().sources()), hub), slices.Concat(stateDefinitions(), fleetDefinitions(), hubDefinitions())},
		"the agent":       {[]prometheus.Collector{agent}, agentDefinitions()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(test.collectors...)
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]Definition{}
			for _, family := range families {
				d := Definition{Name: family.GetName(), Type: Type(strings.ToLower(family.GetType().String())), Help: family.GetHelp()}
				for _, label := range family.GetMetric()[0].GetLabel() {
					d.Labels = append(d.Labels, label.GetName())
				}
				d.Buckets = bounds(family)
				got[d.Name] = d
			}
			want := map[string]Definition{}
			for _, d := range test.want {
				d.Labels = slices.Sorted(slices.Values(d.Labels))
				want[d.Name] = d
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-defined +scraped):\n%s", diff)
			}
		})
	}
}

func bounds(family *dto.MetricFamily) (found []float64) {
	for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
		found = append(found, bucket.GetUpperBound())
	}
	return found
}

func TestDefinitions_HaveValidNamesAndHelp(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, d := range append(HubAll(), agentDefinitions()...) {
		if !name.MatchString(d.Name) || seen[d.Name] {
			t.Errorf("%s is no name, or there twice", d.Name)
		}
		seen[d.Name] = true
		if d.Help == "" || strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: %q is no sentence without a full stop", d.Name, d.Help)
		}
		if strings.HasSuffix(d.Name, "_total") != (d.Type == Counter) && !strings.HasPrefix(d.Name, "lasso_") {
			t.Errorf("%s: a %s", d.Name, d.Type)
		}
	}
}
