package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/rules/state"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// The values of label heartbeat: the state of the agents' heartbeats.
const (
	heartbeatFresh = "fresh"
	heartbeatStale = "stale"
	heartbeatNever = "never"
)

// Heartbeats counts the Clusters whose agents report, no longer report, and have never reported. Clusters that
// expect no agent are not counted.
type Heartbeats struct{ Fresh, Stale, Never int }

// The values of label state: the state of registrations.
const (
	registrationPending  = "pending"
	registrationGranted  = "granted"
	registrationRejected = "rejected"
)

func heartbeatAge() Definition {
	return Definition{
		Name: "fleet_cluster_heartbeat_age_seconds", Type: Histogram,
		Help:    "Seconds since the last heartbeat of each agent that has ever reported, at the time of the scrape",
		Buckets: []float64{60, 300, 900, 1800, 3600, 6 * 3600, 24 * 3600},
	}
}

func lastSeen() Definition {
	return Definition{
		Name: "fleet_cluster_last_seen_timestamp_seconds", Type: Gauge, Labels: []string{"name", "namespace"},
		Help: "Time of the last heartbeat of the cluster's agent, in seconds since 1970; absent before the first",
	}
}

func clusterCount() Definition {
	return Definition{
		Name: "fleet_clusters", Type: Gauge, Labels: []string{"heartbeat"},
		Help: "Clusters by the heartbeats of their agent that the hub has received: fresh, stale (none for three check-in intervals) or never; Clusters that expect no agent are not counted",
	}
}

func checkinInterval() Definition {
	return Definition{
		Name: "fleet_checkin_interval_seconds", Type: Gauge,
		Help: "Seconds between two heartbeats of an agent, as configured on the hub",
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
		Help:    "Seconds since each agent's credential was granted, at the time of the scrape",
		Buckets: []float64{3600, day, 7 * day, 30 * day, 90 * day, 180 * day, 365 * day, 730 * day},
	}
}

func fleetDefinitions() []Definition {
	return []Definition{clusterCount(), heartbeatAge(), lastSeen(), checkinInterval(), registrationCount(), credentialAge(), deploymentCount(), troubles()}
}

func deploymentCount() Definition {
	return Definition{
		Name: "fleet_bundledeployments", Type: Gauge, Labels: []string{"cluster_namespace", stateLabel},
		Help: "BundleDeployments by the workspace of their cluster and by state",
	}
}

// fleetCollector aggregates over all clusters.
type fleetCollector struct{ sources Sources }

// Describe sends the descriptions of the metrics.
func (fleetCollector) Describe(out chan<- *prometheus.Desc) { describe(out, fleetDefinitions()) }

// Collect reads the caches.
func (c fleetCollector) Collect(out chan<- prometheus.Metric) {
	now := c.sources.Clock()
	interval := c.sources.CheckinInterval()
	if interval <= 0 {
		interval = supervision.DefaultCheckinInterval
	}
	out <- checkinInterval().now(interval.Seconds())
	c.collectClusters(out, now)
	c.collectRegistrations(out, now)
	c.collectDeployments(out)
	c.collectTroubles(out)
}

func (c fleetCollector) collectDeployments(out chan<- prometheus.Metric) {
	deployments, err := c.sources.Deployments()
	if err != nil {
		out <- prometheus.NewInvalidMetric(deploymentCount().desc(), err)
		return
	}
	counts := map[string]map[fleet.BundleState]int{}
	for _, deployment := range deployments {
		workspace := strings.ToValidUTF8(deployment.Labels[fleet.LabelClusterNamespace], "\uFFFD")
		if counts[workspace] == nil {
			counts[workspace] = map[fleet.BundleState]int{}
		}
		counts[workspace][state.Of(deployment)]++
	}
	for workspace, byState := range counts {
		for _, name := range deploymentStates() {
			out <- deploymentCount().now(float64(byState[fleet.BundleState(name)]), workspace, name)
		}
	}
}

func (c fleetCollector) collectClusters(out chan<- prometheus.Metric, now time.Time) {
	clusters, err := c.sources.Clusters()
	if err != nil {
		out <- prometheus.NewInvalidMetric(clusterCount().desc(), err)
		return
	}
	histogram, last := heartbeatAge().histogram(), lastSeen().desc()
	ages := histogram.WithLabelValues()
	for _, cluster := range clusters {
		seen := cluster.Status.Agent.LastSeen.Time
		if seen.IsZero() {
			continue
		}
		out <- prometheus.MustNewConstMetric(last, prometheus.GaugeValue, float64(seen.Unix()), cluster.Name, cluster.Namespace)
		ages.Observe(max(0, now.Sub(seen)).Seconds()) // the time is from the agent's clock and may be in the future
	}
	counts := c.sources.Heartbeats()
	for heartbeat, n := range map[string]int{heartbeatFresh: counts.Fresh, heartbeatStale: counts.Stale, heartbeatNever: counts.Never} {
		out <- clusterCount().now(float64(n), heartbeat)
	}
	histogram.Collect(out)
}

func (c fleetCollector) collectRegistrations(out chan<- prometheus.Metric, now time.Time) {
	requests, err := c.sources.Registrations()
	if err != nil {
		out <- prometheus.NewInvalidMetric(registrationCount().desc(), err)
		return
	}
	histogram := credentialAge().histogram()
	ages := histogram.WithLabelValues()
	counts := map[string]int{}
	for _, request := range requests {
		condition := conditions.Get(request.Status.Conditions, conditions.Granted)
		switch {
		case request.Status.Granted:
			counts[registrationGranted]++
			ages.Observe(max(0, now.Sub(grantedAt(request))).Seconds())
		case condition != nil && conditions.IsTrouble(*condition):
			counts[registrationRejected]++
		default:
			counts[registrationPending]++
		}
	}
	for _, state := range []string{registrationPending, registrationGranted, registrationRejected} {
		out <- registrationCount().now(float64(counts[state]), state)
	}
	histogram.Collect(out)
}

// grantedAt returns when a request was granted: the time of its condition, or its creation time, which is a
// moment earlier.
func grantedAt(request *fleet.ClusterRegistration) time.Time {
	if condition := conditions.Get(request.Status.Conditions, conditions.Granted); condition != nil && condition.Status == corev1.ConditionTrue {
		if at, err := time.Parse(time.RFC3339, condition.LastUpdateTime); err == nil {
			return at
		}
	}
	return request.CreationTimestamp.Time
}
