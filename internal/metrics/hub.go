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

// Stages of a registration on the hub, in their order; those before StageCluster only where the hub deploys the agent.
const (
	// StageImport is the deployment of the agent to its cluster.
	StageImport = "import"
	// StageCluster is from the hub's seeing the request to its Cluster's being there.
	StageCluster = "cluster"
	// StageNamespace is until the Cluster has a namespace.
	StageNamespace = "namespace"
	// StageRights is until the account and its rights are there.
	StageRights = "rights"
	// StageCredential is until the credential is handed out.
	StageCredential = "credential"
	// StageHeartbeat is from then to the first heartbeat with the credential.
	StageHeartbeat = "heartbeat"
)

// Outcomes of Events.
const (
	EventWritten = "written"
	EventLimited = "limited"
	EventFailed  = "failed"
)

// latencyBuckets are for what takes a tenth of a second when all is well, and minutes when it is not.
func latencyBuckets() []float64 { return []float64{.05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300} }

func registrations() Definition {
	return Definition{
		Name: "fleet_registrations_total", Type: Counter, Labels: []string{"outcome"},
		Help: "Registrations by outcome: granted, rejected, superseded (by a later one of the same agent)",
	}
}

func stages() Definition {
	return Definition{
		Name: "fleet_registration_stage_duration_seconds", Type: Histogram, Labels: []string{"stage"}, Buckets: latencyBuckets(),
		Help: "How long registrations stayed in a stage: import (the hub deploys the agent), cluster, namespace, rights, credential, heartbeat (from the credential to its first use)",
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
		Help: "Registrations that came to a limit: client-requests and token-requests (they wait for older ones of their client or token), token-clusters (their token may create no more Clusters), labels (some of their labels are left out)",
	}
}

func hubDefinitions() []Definition {
	return []Definition{registrations(), limited(), stages(), imports(), events()}
}

// Hub has what the controllers count. Registered or not, it can be told.
type Hub struct {
	registrations, limited, imports, events *prometheus.CounterVec
	stages                                  *prometheus.HistogramVec
}

// NewHub makes counters at zero, one for each outcome: a rate needs a beginning.
func NewHub() *Hub {
	h := &Hub{
		registrations: registrations().counter(), limited: limited().counter(), imports: imports().counter(), events: events().counter(), stages: stages().histogram(),
	}
	for vec, outcomes := range map[*prometheus.CounterVec][]string{
		h.registrations: {OutcomeGranted, OutcomeRejected, OutcomeSuperseded},
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

// Describe names the metrics.
func (h *Hub) Describe(out chan<- *prometheus.Desc) {
	for _, c := range h.collectors() {
		c.Describe(out)
	}
}

// Collect hands the counts out.
func (h *Hub) Collect(out chan<- prometheus.Metric) {
	for _, c := range h.collectors() {
		c.Collect(out)
	}
}

func (h *Hub) collectors() []prometheus.Collector {
	return []prometheus.Collector{h.registrations, h.limited, h.imports, h.events, h.stages}
}

// Registration counts a registration that came to an outcome.
func (h *Hub) Registration(outcome string) { h.registrations.WithLabelValues(outcome).Inc() }

// Limited counts a registration that came to a limit.
func (h *Hub) Limited(limit string) { h.limited.WithLabelValues(limit).Inc() }

// Import counts a deployment of an agent, and how long it took if it succeeded.
func (h *Hub) Import(outcome string, took time.Duration) {
	h.imports.WithLabelValues(outcome).Inc()
	if outcome == OutcomeSucceeded {
		h.Stage(StageImport, took)
	}
}

// Stage notes how long a registration stayed in a stage.
func (h *Hub) Stage(stage string, took time.Duration) {
	h.stages.WithLabelValues(stage).Observe(took.Seconds())
}

// Event counts an Event.
func (h *Hub) Event(outcome string) { h.events.WithLabelValues(outcome).Inc() }

// Sources are the caches that are read at each scrape, what is known of the agents' heartbeats, the time, and the
// configured time between two heartbeats; zero or less of that is the agents' default. All are required.
type Sources struct {
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

// Collectors read the sources at each scrape. They are to be registered while this process leads.
func Collectors(s Sources) []prometheus.Collector {
	return []prometheus.Collector{
		newStateCollector(bundles(), s.Bundles),
		newStateCollector(deployments(), s.Deployments),
		newStateCollector(clusters(), s.Clusters),
		newStateCollector(groups(), s.ClusterGroups),
		newFleetCollector(s),
		newTroubleCollector(s),
	}
}
