package metrics

import (
	"context"
	"math"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	lasso "github.com/rancher/lasso/pkg/metrics"
	"k8s.io/client-go/tools/leaderelection"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

func buildInfo() Definition {
	return Definition{Name: "fleet_build_info", Type: Gauge, Labels: []string{"version"}, Help: "Constant 1; the label is the version of the binary"}
}

func leading() Definition {
	return Definition{
		Name: "leader_election_master_status", Type: Gauge, Labels: []string{"name"},
		Help: "1 while this process holds the lease of that name, otherwise 0",
	}
}

func requests() Definition {
	return Definition{
		Name: "rest_client_requests_total", Type: Counter, Labels: []string{"code", "method", "host"},
		Help: "Requests to API servers; host is the address of the process's own API server, or other for any other server",
	}
}

func latency() Definition {
	return Definition{
		Name: "rest_client_request_duration_seconds", Type: Histogram, Labels: []string{"verb", "host"},
		Help: "Seconds until API servers responded; host is the address of the process's own API server, or other for any other server", Buckets: []float64{.005, .025, .1, .5, 1, 5, 15, 60},
	}
}

func processDefinitions() []Definition {
	queue := func(name string, t Type, help string) Definition {
		return Definition{Name: "workqueue_" + name, Type: t, Labels: []string{"name"}, Help: help}
	}
	return []Definition{
		buildInfo(), memory(), leading(), requests(), latency(),
		queue("depth", Gauge, "Objects waiting in the queue"),
		queue("adds_total", Counter, "Objects added to the queue"),
		queue("queue_duration_seconds", Histogram, "Seconds that objects waited in the queue"),
		queue("work_duration_seconds", Histogram, "Seconds that a reconcile took"),
		queue("unfinished_work_seconds", Gauge, "Seconds that all running reconciles have been processing, in total"),
		queue("longest_running_processor_seconds", Gauge, "Seconds the longest-running reconcile has been processing"),
		queue("retries_total", Counter, "Retries after an error"),
	}
}

func lassoDefinitions() []Definition {
	labels := []string{"ctx", "controller_name", "handler_name", "has_error"}
	return []Definition{
		{Name: "lasso_controller_total_handler_execution", Type: Counter, Labels: labels, Help: "Handler calls"},
		{Name: "lasso_controller_reconcile_time_seconds", Type: Histogram, Labels: labels, Help: "Seconds that handlers took"},
		{Name: "lasso_controller_total_cached_object", Type: Gauge, Labels: []string{"ctx", "group", "version", "kind"}, Help: "Objects in the caches"},
	}
}

// Process contains the metrics of the process itself.
type Process struct {
	registry *prometheus.Registry
	leading  *prometheus.GaugeVec
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	ownHost  string
}

// NewProcess creates the registry of a process and makes client-go and lasso write to it. They keep the registry
// in package variables and use the first one, so it is called once, before any client is created. lease is the
// lease of the process. Without an election, leads reports leadership from the start.
func NewProcess(version, lease string, leads bool) *Process {
	p := newProcess(version, lease, leads)
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		memoryFigures{memory(), os.DirFS("/")})
	lasso.MustRegisterWithWorkqueue(p.registry)
	leaderelection.SetProvider(elections{p.leading})
	clientmetrics.Register(clientmetrics.RegisterOpts{RequestResult: results{p}, RequestLatency: latencies{p}})
	return p
}

// newProcess creates our own metrics.
func newProcess(version, lease string, leads bool) *Process {
	p := &Process{registry: prometheus.NewRegistry(), leading: leading().gauge(), requests: requests().counter(), latency: latency().histogram()}
	build := buildInfo().gauge()
	build.WithLabelValues(version).Set(1)
	p.leading.WithLabelValues(lease).Set(oneIf(leads))
	p.registry.MustRegister(build, p.leading, p.requests, p.latency)
	return p
}

// Registry returns the registry that is scraped. Further collectors are registered with it.
func (p *Process) Registry() *prometheus.Registry { return p.registry }

// OwnHost sets the address of the process's own API server. Call it before the first request. All other servers
// share one label value, because the hub talks to one per cluster, at addresses that users choose.
func (p *Process) OwnHost(address string) {
	if parsed, err := url.Parse(address); err == nil && parsed.Host != "" {
		p.ownHost = parsed.Host
		return
	}
	p.ownHost = address // the address can also be "host:port"
}

func (p *Process) host(host string) string {
	if host == p.ownHost {
		return host
	}
	return "other"
}

// results counts requests for client-go.
type results struct{ *Process }

// Increment counts one request.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.requests.WithLabelValues(code, method, r.host(host)).Inc()
}

// latencies measures requests for client-go.
type latencies struct{ *Process }

// Observe records the duration of one request.
func (l latencies) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.latency.WithLabelValues(verb, l.host(u.Host)).Observe(took.Seconds())
}

// elections receives from client-go which process leads.
type elections struct{ leading *prometheus.GaugeVec }

// NewLeaderMetric is called once for each election.
func (e elections) NewLeaderMetric() leaderelection.LeaderMetric { return e }

// On is called when the lease is acquired.
func (e elections) On(name string) { e.leading.WithLabelValues(name).Set(1) }

// Off is called at startup and when the lease is lost.
func (e elections) Off(name string) { e.leading.WithLabelValues(name).Set(0) }

// SlowpathExercised does nothing: operators do not need it.
func (elections) SlowpathExercised(string) {}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// endOf returns a time as seconds since 1970. The zero time means never: +Inf.
func endOf(at time.Time) float64 {
	if at.IsZero() {
		return math.Inf(1)
	}
	return float64(at.Unix())
}
