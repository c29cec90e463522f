package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DefaultCheckinInterval is the time between two heartbeats where the configuration names none.
const DefaultCheckinInterval = 15 * time.Minute

// staleAfter is how many check-in intervals an agent may be silent before it counts as stale: one heartbeat may be
// lost, and each comes up to a tenth late.
const staleAfter = 3

// What the agents' last heartbeats say, as values of label heartbeat.
const (
	heartbeatFresh = "fresh"
	heartbeatStale = "stale"
	heartbeatNever = "never"
)

// How far registrations are, as values of label state.
const (
	registrationPending  = "pending"
	registrationGranted  = "granted"
	registrationRejected = "rejected"
)

func heartbeatAge() Definition {
	return Definition{
		Name: "fleet_cluster_heartbeat_age_seconds", Type: Histogram,
		Help:    "Age of the last heartbeat of each agent that was ever heard of, at the time of the scrape",
		Buckets: []float64{60, 300, 900, 1800, 3600, 6 * 3600, 24 * 3600},
	}
}

func lastSeen() Definition {
	return Definition{
		Name: "fleet_cluster_last_seen_timestamp_seconds", Type: Gauge, Labels: []string{"name", "namespace"},
		Help: "When the cluster's agent was heard of last, in seconds since 1970; absent before its first heartbeat",
	}
}

func clusterCount() Definition {
	return Definition{
		Name: "fleet_clusters", Type: Gauge, Labels: []string{"heartbeat"},
		Help: "Clusters by their agent's last heartbeat: fresh, stale (older than three check-in intervals) or never",
	}
}

func checkinInterval() Definition {
	return Definition{
		Name: "fleet_checkin_interval_seconds", Type: Gauge,
		Help: "The time between two heartbeats of an agent, as configured on the hub",
	}
}

func registrationCount() Definition {
	return Definition{
		Name: "fleet_cluster_registrations", Type: Gauge, Labels: []string{"state"},
		Help: "ClusterRegistrations by state: pending, granted or rejected",
	}
}

func credentialAge() Definition {
	const day = 24 * 3600
	return Definition{
		Name: "fleet_credential_age_seconds", Type: Histogram,
		Help:    "Time since each agent's credential was granted, at the time of the scrape",
		Buckets: []float64{3600, day, 7 * day, 30 * day, 90 * day, 180 * day, 365 * day, 730 * day},
	}
}

func fleetDefinitions() []Definition {
	return []Definition{clusterCount(), heartbeatAge(), lastSeen(), checkinInterval(), registrationCount(), credentialAge(), troubles()}
}

// fleetCollector sums up over all clusters.
type fleetCollector struct {
	sources                                                      Sources
	clusters, age, lastSeen, interval, registrations, credential *prometheus.Desc
}

func newFleetCollector(sources Sources) *fleetCollector {
	return &fleetCollector{
		sources: sources, clusters: clusterCount().desc(), age: heartbeatAge().desc(), lastSeen: lastSeen().desc(),
		interval: checkinInterval().desc(), registrations: registrationCount().desc(), credential: credentialAge().desc(),
	}
}

// Describe names the metrics.
func (c *fleetCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.clusters, c.age, c.lastSeen, c.interval, c.registrations, c.credential} {
		out <- desc
	}
}

// Collect reads the caches.
func (c *fleetCollector) Collect(out chan<- prometheus.Metric) {
	now := c.sources.Clock()
	interval := c.sources.CheckinInterval()
	if interval <= 0 {
		interval = DefaultCheckinInterval
	}
	out <- prometheus.MustNewConstMetric(c.interval, prometheus.GaugeValue, interval.Seconds())
	c.collectClusters(out, now, staleAfter*interval)
	c.collectRegistrations(out, now)
}

func (c *fleetCollector) collectClusters(out chan<- prometheus.Metric, now time.Time, patience time.Duration) {
	clusters, err := c.sources.Clusters()
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.clusters, err)
		return
	}
	ages := newDistribution(heartbeatAge().Buckets)
	counts := map[string]int{}
	for _, cluster := range clusters {
		seen := cluster.Status.Agent.LastSeen.Time
		if seen.IsZero() {
			counts[heartbeatNever]++
			continue
		}
		out <- prometheus.MustNewConstMetric(c.lastSeen, prometheus.GaugeValue, float64(seen.Unix()), cluster.Name, cluster.Namespace)
		age := max(0, now.Sub(seen)) // it is the agent's clock that says when
		ages.observe(age)
		if age > patience {
			counts[heartbeatStale]++
		} else {
			counts[heartbeatFresh]++
		}
	}
	for _, heartbeat := range []string{heartbeatFresh, heartbeatStale, heartbeatNever} {
		out <- prometheus.MustNewConstMetric(c.clusters, prometheus.GaugeValue, float64(counts[heartbeat]), heartbeat)
	}
	out <- ages.metric(c.age)
}

func (c *fleetCollector) collectRegistrations(out chan<- prometheus.Metric, now time.Time) {
	requests, err := c.sources.Registrations()
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.registrations, err)
		return
	}
	ages := newDistribution(credentialAge().Buckets)
	counts := map[string]int{}
	for _, request := range requests {
		condition := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
		switch {
		case request.Status.Granted:
			counts[registrationGranted]++
			ages.observe(max(0, now.Sub(grantedAt(request))))
		case condition != nil && fleet.IsTrouble(*condition):
			counts[registrationRejected]++
		default:
			counts[registrationPending]++
		}
	}
	for _, state := range []string{registrationPending, registrationGranted, registrationRejected} {
		out <- prometheus.MustNewConstMetric(c.registrations, prometheus.GaugeValue, float64(counts[state]), state)
	}
	out <- ages.metric(c.credential)
}

// grantedAt is when a request was granted: what its condition says, else when it was made, which is a moment before.
func grantedAt(request *fleet.ClusterRegistration) time.Time {
	if condition := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted); condition != nil && condition.Status == corev1.ConditionTrue {
		if at, err := time.Parse(time.RFC3339, condition.LastUpdateTime); err == nil {
			return at
		}
	}
	return request.CreationTimestamp.Time
}
