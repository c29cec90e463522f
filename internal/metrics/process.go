package metrics

import (
	"context"
	"math"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	lasso "github.com/rancher/lasso/pkg/metrics"
	"k8s.io/client-go/tools/leaderelection"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

func buildInfo() Definition {
	return Definition{Name: "fleet_build_info", Type: Gauge, Labels: []string{"version"}, Help: "1; the label is the release of the binary"}
}

func leading() Definition {
	return Definition{
		Name: "leader_election_master_status", Type: Gauge, Labels: []string{"name"},
		Help: "1 while this process holds the lease of that name, 0 while it stands by",
	}
}

func requests() Definition {
	return Definition{
		Name: "rest_client_requests_total", Type: Counter, Labels: []string{"code", "method", "host"},
		Help: "Requests to API servers. host is the address of the process's own API server, or other, whichever other it is",
	}
}

func latency() Definition {
	return Definition{
		Name: "rest_client_request_duration_seconds", Type: Histogram, Labels: []string{"verb", "host"},
		Help: "How long API servers took to answer; hosts as above", Buckets: []float64{.005, .025, .1, .5, 1, 5, 15, 60},
	}
}

func processDefinitions() []Definition {
	queue := func(name string, t Type, help string) Definition {
		return Definition{Name: "workqueue_" + name, Type: t, Labels: []string{"name"}, Help: help}
	}
	return []Definition{
		buildInfo(), leading(), requests(), latency(),
		queue("depth", Gauge, "Objects that wait to be looked at"),
		queue("adds_total", Counter, "Objects that were put into the queue"),
		queue("queue_duration_seconds", Histogram, "How long objects waited in the queue"),
		queue("work_duration_seconds", Histogram, "How long it took to look at an object"),
		queue("unfinished_work_seconds", Gauge, "How long the objects that are being looked at have been, together"),
		queue("longest_running_processor_seconds", Gauge, "How long the object that is being looked at longest has been"),
		queue("retries_total", Counter, "Times an object was to be looked at again after an error"),
	}
}

func lassoDefinitions() []Definition {
	labels := []string{"ctx", "controller_name", "handler_name", "has_error"}
	return []Definition{
		{Name: "lasso_controller_total_handler_execution", Type: Counter, Labels: labels, Help: "Calls of handlers"},
		{Name: "lasso_controller_reconcile_time_seconds", Type: Histogram, Labels: labels, Help: "How long handlers took"},
		{Name: "lasso_controller_total_cached_object", Type: Gauge, Labels: []string{"ctx", "group", "version", "kind"}, Help: "Objects in the caches"},
	}
}

// Process has the metrics of a process as such.
type Process struct {
	registry *prometheus.Registry
	leading  *prometheus.GaugeVec
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	ownHost  string
}

// NewProcess makes the registry of a process and has client-go and lasso write into it. They keep whom they write to
// in package variables and take the first: it is called once, before any client is made. lease is the one the
// process works under; without an election, leads says so from the start.
func NewProcess(version, lease string, leads bool) *Process {
	p := newProcess(version, lease, leads)
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	lasso.MustRegisterWithWorkqueue(p.registry)
	leaderelection.SetProvider(elections{p.leading})
	clientmetrics.Register(clientmetrics.RegisterOpts{RequestResult: results{p}, RequestLatency: latencies{p}})
	return p
}

// newProcess has what is ours.
func newProcess(version, lease string, leads bool) *Process {
	p := &Process{registry: prometheus.NewRegistry(), leading: leading().gauge(), requests: requests().counter(), latency: latency().histogram()}
	build := buildInfo().gauge()
	build.WithLabelValues(version).Set(1)
	p.leading.WithLabelValues(lease).Set(oneIf(leads))
	p.registry.MustRegister(build, p.leading, p.requests, p.latency)
	return p
}

// Registry is where further collectors go, and what is scraped.
func (p *Process) Registry() *prometheus.Registry { return p.registry }

// OwnHost says which API server is the process's own; to be called before the first request. All others are one:
// the hub talks to as many as there are clusters, at addresses that users choose.
func (p *Process) OwnHost(address string) {
	if parsed, err := url.Parse(address); err == nil && parsed.Host != "" {
		p.ownHost = parsed.Host
		return
	}
	p.ownHost = address // "host:port" is an address, too
}

func (p *Process) host(host string) string {
	if host == p.ownHost {
		return host
	}
	return "other"
}

// results counts requests for client-go.
type results struct{ *Process }

// Increment counts one.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.requests.WithLabelValues(code, method, r.host(host)).Inc()
}

// latencies measures requests for client-go.
type latencies struct{ *Process }

// Observe measures one.
func (l latencies) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.latency.WithLabelValues(verb, l.host(u.Host)).Observe(took.Seconds())
}

// elections is how client-go tells who leads.
type elections struct{ leading *prometheus.GaugeVec }

// NewLeaderMetric is called once for each election.
func (e elections) NewLeaderMetric() leaderelection.LeaderMetric { return e }

// On is called when the lease is won.
func (e elections) On(name string) { e.leading.WithLabelValues(name).Set(1) }

// Off is called at the start, and when the lease is lost.
func (e elections) Off(name string) { e.leading.WithLabelValues(name).Set(0) }

// SlowpathExercised is of no interest to an operator.
func (elections) SlowpathExercised(string) {}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// endOf is a time as seconds since 1970; the zero time never comes.
func endOf(at time.Time) float64 {
	if at.IsZero() {
		return math.Inf(1)
	}
	return float64(at.Unix())
}
