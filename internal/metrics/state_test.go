package metrics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestHubScrape_MatchesTheGolden(t *testing.T) {
	golden.Expect(t, "hub.prom", exposition(t, Collectors(aWorld().sources())...))
}

func TestDeletedObjects_LeaveNoSeries(t *testing.T) {
	w := aWorld()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collectors(w.sources())...)
	if before := metricstest.Scrape(t, registry); !strings.Contains(before, `name="east"`) || !strings.Contains(before, "fleet_troubles{") {
		t.Fatalf("the objects are not told of:\n%s", before)
	}
	*w = world{now: noon}
	golden.Expect(t, "empty.prom", metricstest.Scrape(t, registry))
}

// series are the lines of an exposition that begin with a name and have all of these labels.
func series(text, name string, labels ...string) (found []string) {
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, name+"{")
		for _, label := range labels {
			is = is && strings.Contains(rest, label)
		}
		if is {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestClusterState_OneSeriesIsOne(t *testing.T) {
	tests := map[string]struct{ shown, label, one string }{
		"all bundles are ready":                {"", "Ready", "Ready"},
		"a resource is not ready":              {"NotReady", "NotReady", "NotReady"},
		"no heartbeat yet":                     {state.WaitCheckIn, "WaitCheckIn", "WaitCheckIn"},
		"any other trouble counts as NotReady": {"ErrApplied", "ErrApplied", "NotReady"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{now: noon, clusters: []*fleet.Cluster{{ObjectMeta: meta("ws", "c"), Status: fleet.ClusterStatus{Display: fleet.ClusterDisplay{State: test.shown}, Conditions: ready()}}}}
			text := exposition(t, Collectors(w.sources())...)
			var ones []string
			for _, line := range series(text, "fleet_cluster_state") {
				if strings.HasSuffix(line, " 1") {
					ones = append(ones, line)
				}
			}
			if len(ones) != 1 || !strings.Contains(ones[0], `state="`+test.one+`"`) {
				t.Errorf("the states that are 1: %q, want %s alone", ones, test.one)
			}
			if found := series(text, "fleet_cluster_ready_git_repos", `state="`+test.label+`"`); len(found) != 1 {
				t.Errorf("no series says that the state is %s", test.label)
			}
		})
	}
}

// The state of an object is empty if its summary lists nothing. Then its Ready condition decides.
func TestStateWithoutListedEntries_FollowsTheReadyCondition(t *testing.T) {
	bundle := func(list ...genericcondition.GenericCondition) string {
		return bundles().stateOf(&fleet.Bundle{Status: fleet.BundleStatus{Conditions: list}})
	}
	cluster := func(list ...genericcondition.GenericCondition) string {
		return clusters().stateOf(&fleet.Cluster{Status: fleet.ClusterStatus{Conditions: list}})
	}
	group := func(silent int, list ...genericcondition.GenericCondition) string {
		return groups().stateOf(&fleet.ClusterGroup{Status: fleet.ClusterGroupStatus{NonReadyClusterCount: silent, Conditions: list}})
	}
	for name, test := range map[string]struct{ got, want string }{
		"Bundle is ready":                          {bundle(ready()...), "Ready"},
		"rollout of the Bundle is invalid":         {bundle(falseCondition(conditions.Ready, conditions.ReasonRolloutInvalid)), "NotReady"},
		"selector that the Bundle uses is invalid": {bundle(falseCondition(conditions.Ready, conditions.ReasonSelectorInvalid)), "NotReady"},
		"Bundle was not processed":                 {bundle(), "NotReady"},
		"Cluster is ready":                         {cluster(ready()...), "Ready"},
		"Cluster has no namespace":                 {cluster(), "WaitCheckIn"},
		"namespace of the Cluster is taken":        {cluster(falseCondition(conditions.Processed, conditions.ReasonNamespaceTaken)), "WaitCheckIn"},
		"Cluster is not ready":                     {cluster(falseCondition(conditions.Ready, conditions.ReasonError)), "NotReady"},
		"ClusterGroup is ready":                    {group(0, ready()...), "Ready"},
		"ClusterGroup has a silent member":         {group(1, ready()...), "NotReady"},
		"selector of the ClusterGroup is invalid":  {group(0, falseCondition(conditions.Ready, conditions.ReasonSelectorInvalid)), "NotReady"},
		"ClusterGroup was not processed":           {group(0), "NotReady"},
	} {
		if test.got != test.want {
			t.Errorf("%s: state %s, want %s", name, test.got, test.want)
		}
	}
}

func TestBundleDeploymentState_OneSeriesIsOne(t *testing.T) {
	tests := map[fleet.BundleState]func(*fleet.BundleDeployment){
		fleet.Ready:       func(*fleet.BundleDeployment) {},
		fleet.NotReady:    func(d *fleet.BundleDeployment) { d.Status.Ready = false },
		fleet.Modified:    func(d *fleet.BundleDeployment) { d.Status.NonModified = false },
		fleet.OutOfSync:   func(d *fleet.BundleDeployment) { d.Spec.StagedDeploymentID = "s-2:b" },
		fleet.WaitApplied: func(d *fleet.BundleDeployment) { d.Status.AppliedDeploymentID = "" },
		fleet.ErrApplied: func(d *fleet.BundleDeployment) {
			d.Status.AppliedDeploymentID = ""
			d.Status.Conditions = append(d.Status.Conditions, falseCondition(conditions.Deployed, conditions.ReasonError))
		},
	}
	for want, modify := range tests {
		t.Run(string(want), func(t *testing.T) {
			d := &fleet.BundleDeployment{
				ObjectMeta: meta("ns", "d"), Spec: fleet.BundleDeploymentSpec{DeploymentID: "s-1:a", StagedDeploymentID: "s-1:a"},
				Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "s-1:a", Ready: true, NonModified: true},
			}
			modify(d)
			w := &world{now: noon, deployments: []*fleet.BundleDeployment{d}}
			lines := series(exposition(t, Collectors(w.sources())...), "fleet_bundledeployment_state")
			if len(lines) != 7 {
				t.Fatalf("%d series, want one for each state:\n%s", len(lines), strings.Join(lines, "\n"))
			}
			for _, line := range lines {
				if is := strings.Contains(line, `state="`+string(want)+`"`); is != strings.HasSuffix(line, " 1") {
					t.Error(line)
				}
			}
		})
	}
}

func TestDeployments_AreOnlyCountedIfConfigured(t *testing.T) {
	w := aWorld()
	second, other := w.deployments[0].DeepCopy(), w.deployments[0].DeepCopy()
	second.Name, other.Name = "second", "other"
	other.Labels[fleet.LabelClusterNamespace] = "other"
	other.Status = fleet.BundleDeploymentStatus{AppliedDeploymentID: "s-1:a", Ready: true, NonModified: true}
	w.deployments = append(w.deployments, second, other)
	for _, only := range []bool{false, true} {
		sources := w.sources()
		sources.OnlyCountDeployments = only
		text := exposition(t, Collectors(sources)...)
		if has := len(series(text, "fleet_bundledeployment_state")) > 0; has == only {
			t.Errorf("only counted: %t; series of each BundleDeployment: %t", only, has)
		}
		counts := strings.Join(series(text, "fleet_bundledeployments"), "\n")
		for _, want := range []string{
			`{cluster_namespace="fleet-default",state="WaitApplied"} 2`, `{cluster_namespace="fleet-default",state="Ready"} 0`,
			`{cluster_namespace="other",state="Ready"} 1`,
		} {
			if !strings.Contains(counts, want) {
				t.Errorf("%s is not in\n%s", want, counts)
			}
		}
	}
}

func TestHeartbeats(t *testing.T) {
	silent := &fleet.Cluster{ObjectMeta: meta("ws", "silent"), Status: fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: metav1.NewTime(noon.Add(-time.Hour))}}}
	fast := &fleet.Cluster{ObjectMeta: meta("ws", "fast"), Status: fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: metav1.NewTime(noon.Add(time.Hour))}}}
	never := &fleet.Cluster{ObjectMeta: meta("ws", "never")}
	w := &world{now: noon, clusters: []*fleet.Cluster{silent, fast, never}, heartbeats: Heartbeats{Fresh: 5, Stale: 3, Never: 2}}
	text := exposition(t, Collectors(w.sources())...)
	tests := map[string]struct {
		metric string
		want   []string
	}{
		"counts follow the hub's condition, not the agents' clocks": {
			"fleet_clusters", []string{`fleet_clusters{heartbeat="fresh"} 5`, `fleet_clusters{heartbeat="never"} 2`, `fleet_clusters{heartbeat="stale"} 3`},
		},
		"time of the last heartbeat is the agent's": {
			"fleet_cluster_last_seen_timestamp_seconds",
			[]string{
				`fleet_cluster_last_seen_timestamp_seconds{name="fast",namespace="ws"} 1.7672724e+09`,
				`fleet_cluster_last_seen_timestamp_seconds{name="silent",namespace="ws"} 1.7672652e+09`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, series(text, test.metric)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for what, line := range map[string]string{
		"clock ahead: age of zero":                      "fleet_cluster_heartbeat_age_seconds_sum 3600",
		"no configured interval: default of the agents": "fleet_checkin_interval_seconds 900",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s: %q is not in\n%s", what, line, text)
		}
	}
}

func TestUnreadableCache_FailsTheScrape(t *testing.T) {
	w := aWorld()
	w.err = errors.New("no index")
	for i, collector := range Collectors(w.sources()) {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(collector)
		if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), "no index") {
			t.Errorf("collector %d: error %v", i, err)
		}
	}
}

func TestInvalidUTF8InALabel_IsReplaced(t *testing.T) {
	w := &world{now: noon, clusters: []*fleet.Cluster{{ObjectMeta: meta("ws", "c", fleet.LabelClusterDisplayName, "a\xffb\n\"c\"")}}}
	if found := series(exposition(t, Collectors(w.sources())...), "fleet_cluster_ready_git_repos", `cluster_display_name="a�b\n\"c\""`); len(found) != 1 {
		t.Error("the label is not there")
	}
}

// manyClusters are n clusters with two bundles each, half of them have never reported.
func manyClusters(n int) *world {
	w := &world{now: noon, bundles: aWorld().bundles, groups: aWorld().groups}
	for i := range n {
		cluster := *aWorld().clusters[i%2]
		cluster.ObjectMeta = meta("fleet-default", fmt.Sprintf("cluster-%d", i), fleet.LabelClusterDisplayName, fmt.Sprintf("Cluster %d", i))
		w.clusters = append(w.clusters, &cluster)
		for _, bundle := range []string{"guestbook", "fleet-agent"} {
			d := *aWorld().deployments[0]
			d.ObjectMeta = meta(fmt.Sprintf("cluster-fleet-default-cluster-%d", i), bundle, fleet.LabelCluster, cluster.Name, fleet.LabelClusterNamespace, "fleet-default", fleet.LabelBundleName, bundle)
			w.deployments = append(w.deployments, &d)
		}
		w.requests = append(w.requests, aRequest(fmt.Sprintf("request-%d", i), func(s *fleet.ClusterRegistrationStatus) { s.Granted = true }))
	}
	return w
}

func TestThousandClusters_SeriesPerClusterAreBounded(t *testing.T) {
	w := manyClusters(1000)
	for _, c := range Collectors(w.sources()) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			perCluster := len(family.GetMetric()) / 1000
			if most := 14; perCluster > most { // a BundleDeployment's seven states, twice
				t.Errorf("%s has %d series for each cluster, more than %d", family.GetName(), perCluster, most)
			}
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	w := manyClusters(1000)
	registry := prometheus.NewRegistry()
	registry.MustRegister(Collectors(w.sources())...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
