package metrics

import (
	"crypto/rand"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
)

func base64url(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// process is the one of this test binary: client-go takes its first provider and no other.
var process = NewProcess("v1.2.3", "the-lease", false)

// lines are those of some metrics, without histograms' buckets.
func lines(text string, names ...string) (found []string) {
	for line := range strings.Lines(text) {
		for _, name := range names {
			if strings.HasPrefix(line, name) && !strings.Contains(line, "_bucket") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return found
}

func TestProcessMetrics(t *testing.T) {
	process := newProcess("v1.2.3", "the-lease", false)
	process.OwnHost("https://10.0.0.1:6443/prefix")
	results{process}.Increment(t.Context(), "200", "GET", "10.0.0.1:6443")
	results{process}.Increment(t.Context(), "401", "GET", "10.9.9.9:6443")
	results{process}.Increment(t.Context(), "401", "GET", "secret.example.com")
	latencies{process}.Observe(t.Context(), "GET", url.URL{Host: "10.0.0.1:6443", Path: "/api/{prefix}"}, time.Second)
	latencies{process}.Observe(t.Context(), "GET", url.URL{Host: "secret.example.com"}, time.Second)

	got := lines(metricstest.Scrape(t, process.Registry()), "fleet_build_info", "leader_election", "rest_client")
	want := []string{
		`fleet_build_info{version="v1.2.3"} 1`,
		`leader_election_master_status{name="the-lease"} 0`,
		`rest_client_request_duration_seconds_sum{host="10.0.0.1:6443",verb="GET"} 1`,
		`rest_client_request_duration_seconds_count{host="10.0.0.1:6443",verb="GET"} 1`,
		`rest_client_request_duration_seconds_sum{host="other",verb="GET"} 1`,
		`rest_client_request_duration_seconds_count{host="other",verb="GET"} 1`,
		`rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 1`,
		`rest_client_requests_total{code="401",host="other",method="GET"} 2`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWorkqueueMetrics(t *testing.T) {
	name := "queue-" + rand.Text() // what was counted of another run stays
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
	defer queue.ShutDown()
	queue.Add("one")
	queue.Add("two")

	got := lines(metricstest.Scrape(t, process.Registry()), `workqueue_depth{name="`+name, `workqueue_adds_total{name="`+name)
	want := []string{`workqueue_adds_total{name="` + name + `"} 2`, `workqueue_depth{name="` + name + `"} 2`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeaderMetric(t *testing.T) {
	election := elections{process.leading}.NewLeaderMetric()
	for _, step := range []struct {
		tell func(string)
		want string
	}{{election.Off, "0"}, {election.On, "1"}, {election.SlowpathExercised, "1"}, {election.Off, "0"}} {
		step.tell("the-lease")
		want := []string{`leader_election_master_status{name="the-lease"} ` + step.want}
		if diff := cmp.Diff(want, lines(metricstest.Scrape(t, process.Registry()), "leader_election")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	alone := NewProcess("dev", "the-lease", true)
	if diff := cmp.Diff([]string{`leader_election_master_status{name="the-lease"} 1`}, lines(metricstest.Scrape(t, alone.Registry()), "leader_election")); diff != "" {
		t.Errorf("without an election (-want +got):\n%s", diff)
	}
}

func TestOwnHost(t *testing.T) {
	for address, host := range map[string]string{
		"https://10.0.0.1:6443": "10.0.0.1:6443", "https://hub.example.com/k8s/clusters/local": "hub.example.com", "10.0.0.1:6443": "10.0.0.1:6443",
	} {
		p := &Process{}
		p.OwnHost(address)
		if got := p.host(host); got != host {
			t.Errorf("%s: the host is %q", address, got)
		}
	}
}
