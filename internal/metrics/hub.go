package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Outcomes of registrations and imports.
const (
	OutcomeGranted    = "granted"
	OutcomeRejected   = "rejected"
	OutcomeUnproven   = "unproven"
	OutcomeSuperseded = "superseded"
	OutcomeSucceeded  = "succeeded"
	OutcomeFailed     = "failed"
)

// Limits on what the holder of a token can make the hub do.
const (
	LimitRequestsOfClient = "client-requests"
	LimitRequestsOfToken  = "token-requests"
	LimitClustersOfToken  = "token-clusters"
	LimitLabels           = "labels"
)

// Stages of a registration on the hub, in order. The stages before StageCluster exist only if the hub deploys
// the agent.
const (
	// StageImport is the deployment of the agent to its cluster.
	StageImport = "import"
	// StageCluster lasts from the time the hub sees the request until its Cluster exists.
	StageCluster = "cluster"
	// StageNamespace lasts until the Cluster has a namespace.
	StageNamespace = "namespace"
	// StageRights lasts until the account and its rights exist.
	StageRights = "rights"
	// StageCredential lasts until the credential is written.
	StageCredential = "credential"
	// StageHeartbeat lasts from then until the first heartbeat with the credential.
	StageHeartbeat = "heartbeat"
)

// Outcomes of Events.
const (
	EventWritten = "written"
	EventLimited = "limited"
	EventFailed  = "failed"
)

// latencyBuckets returns buckets for durations that are normally a tenth of a second, and minutes when something
// is wrong.
func latencyBuckets() []float64 { return []float64{.05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300} }

func registrations() Definition {
	return Definition{
		Name: "fleet_registrations_total", Type: Counter, Labels: []string{"outcome"},
		Help: "Registrations by outcome: granted, rejected, superseded (by a later one of the same agent), unproven (recovery requests without a valid proof or ticket)",
	}
}

func stages() Definition {
	return Definition{
		Name: "fleet_registration_stage_duration_seconds", Type: Histogram, Labels: []string{"stage"}, Buckets: latencyBuckets(),
		Help: "Seconds registrations stayed in a stage: import (the hub deploys the agent), cluster, namespace, rights, credential, heartbeat (from the credential to its first use)",
	}
}

func imports() Definition {
	return Definition{
		Name: "fleet_imports_total", Type: Counter, Labels: []string{"outcome"},
		Help: "Deployments of an agent to its cluster by the hub, by outcome: succeeded, failed",
	}
}

func events() Definition {
	return Definition{
		Name: "fleet_events_total", Type: Counter, Labels: []string{"outcome"},
		Help: "Events for users by outcome: written, limited (there were too many), failed",
	}
}

func limited() Definition {
	return Definition{
		Name: "fleet_registrations_limited_total", Type: Counter, Labels: []string{"limit"},
		Help: "Registrations that reached a limit: client-requests and token-requests (they wait for older requests of the same client or token), token-clusters (the token may not create more Clusters), labels (some labels were not copied)",
	}
}

func hubDefinitions() []Definition {
	return []Definition{registrations(), limited(), stages(), imports(), events()}
}

// Hub collects the metrics of the controllers. It can be used before it is registered.
type Hub struct {
	registrations, limited, imports, events *prometheus.CounterVec
	stages                                  *prometheus.HistogramVec
}

// NewHub returns a Hub with a counter at zero for each outcome, because rates need a first value.
func NewHub() *Hub {
	h := &Hub{
		registrations: registrations().counter(), limited: limited().counter(), imports: imports().counter(), events: events().counter(), stages: stages().histogram(),
	}
	for vec, outcomes := range map[*prometheus.CounterVec][]string{
		h.registrations: {OutcomeGranted, OutcomeRejected, OutcomeSuperseded, OutcomeUnproven},
		h.limited:       {LimitRequestsOfClient, LimitRequestsOfToken, LimitClustersOfToken, LimitLabels},
		h.imports:       {OutcomeSucceeded, OutcomeFailed},
		h.events:        {EventWritten, EventLimited, EventFailed},
	} {
		for _, outcome := range outcomes {
			vec.WithLabelValues(outcome)
		}
	}
	for _, stage := range []string{StageImport, StageCluster, StageNamespace, StageRights, StageCredential, StageHeartbeat} {
		h.stages.WithLabelValues(stage)
	}
	return h
}

// Describe sends the descriptions of the metrics.
func (h *Hub) Describe(out chan<- *prometheus.Desc) { describe(out, hubDefinitions()) }

// Collect sends the counters.
func (h *Hub) Collect(out chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{h.registrations, h.limited, h.imports, h.events, h.stages} {
		c.Collect(out)
	}
}

// Registration counts a registration that has reached an outcome.
func (h *Hub) Registration(outcome string) { h.registrations.WithLabelValues(outcome).Inc() }

// Limited counts a registration that has reached a limit.
func (h *Hub) Limited(limit string) { h.limited.WithLabelValues(limit).Inc() }

// Import counts a deployment of an agent. took is recorded if it succeeded.
func (h *Hub) Import(outcome string, took time.Duration) {
	h.imports.WithLabelValues(outcome).Inc()
	if outcome == OutcomeSucceeded {
		h.Stage(StageImport, took)
	}
}

// Stage records how long a registration stayed in a stage.
func (h *Hub) Stage(stage string, took time.Duration) {
	h.stages.WithLabelValues(stage).Observe(took.Seconds())
}

// Event counts an Event.
func (h *Hub) Event(outcome string) { h.events.WithLabelValues(outcome).Inc() }

// Sources contains the caches that are read at each scrape, the counts of heartbeats, the clock, and the
// configured interval between two heartbeats (zero or less means the agents' default). All are required, but
// OnlyCountDeployments, which omits the series of each BundleDeployment.
type Sources struct {
	OnlyCountDeployments bool

	Bundles         List[*fleet.Bundle]
	Deployments     List[*fleet.BundleDeployment]
	Clusters        List[*fleet.Cluster]
	ClusterGroups   List[*fleet.ClusterGroup]
	Registrations   List[*fleet.ClusterRegistration]
	Tokens          List[*fleet.ClusterRegistrationToken]
	Heartbeats      func() Heartbeats
	Clock           func() time.Time
	CheckinInterval func() time.Duration
}

// Collectors returns collectors that read the sources at each scrape. Register them while this process leads.
func Collectors(s Sources) []prometheus.Collector {
	all := []prometheus.Collector{
		newStateCollector(bundles(), s.Bundles),
		newStateCollector(clusters(), s.Clusters),
		newStateCollector(groups(), s.ClusterGroups),
		fleetCollector{s},
	}
	if !s.OnlyCountDeployments {
		all = append(all, newStateCollector(deployments(), s.Deployments))
	}
	return all
}
