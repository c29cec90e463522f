// Package metrics has what the two processes tell a Prometheus server, each with the sentence that explains it.
//
//	caches ─► collectors, at each scrape ──┐
//	controllers, agent ─► counters ────────┼─► registry ─► GET /metrics (package health)
//	client-go, Go's runtime ─► providers ──┘
//
// What can be read is read at the scrape: it costs nothing while nobody scrapes, asks no API server, and what is
// deleted is gone from the next scrape. Only the leader has caches, so only the leader tells of clusters and bundles.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Type is a metric's type, as Prometheus spells it.
type Type string

// The types in use.
const (
	Gauge     Type = "gauge"
	Counter   Type = "counter"
	Histogram Type = "histogram"
)

// Definition is one metric: what docs/monitoring.md says of it, and what is made of it.
type Definition struct {
	Name   string
	Type   Type
	Labels []string
	// Help is one sentence, without a full stop.
	Help string
	// Buckets are the upper bounds of a histogram, in the metric's unit.
	Buckets []float64
}

func (d Definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}

func (d Definition) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

func (d Definition) gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

func (d Definition) histogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets}, d.Labels)
}

// group is a part of the documentation.
type group struct {
	// Title is the heading, Text what stands below it.
	Title, Text string
	Definitions []Definition
}

// hubGroups are the metrics of fleetcontroller.
func hubGroups() []group {
	return []group{
		{"Bundles, clusters and groups", "Of each object, from the leader's cache. The names, labels and meanings are those that Fleet's users scrape already. " +
			"`state` is the object's state; the series `…_state` have one for each state, 1 for the one it is in and 0 for the others.", stateDefinitions()},
		{"Clusters' agents and registrations", "From the leader's cache, of all clusters together where one series for each would be too many.", fleetDefinitions()},
		{"What the controllers did", "Counted since the process started.", hubDefinitions()},
		{"The process", "Of either process. Beside them are those of Go's runtime, `go_…` and `process_…`.", processDefinitions()},
		{"Work of the hub's controllers", "", lassoDefinitions()},
	}
}

// agentGroups are the metrics of fleetagent that are not among hubGroups.
func agentGroups() []group {
	return []group{{"The agent", "", agentDefinitions()}}
}

// HubAll lists every metric of fleetcontroller.
func HubAll() []Definition {
	var all []Definition
	for _, group := range hubGroups() {
		all = append(all, group.Definitions...)
	}
	return all
}

// AgentAll lists every metric of fleetagent.
func AgentAll() []Definition {
	return append(agentDefinitions(), processDefinitions()...)
}
