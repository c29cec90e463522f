// Package metrics defines the Prometheus metrics of the two processes, each with its help text.
//
//	caches ─► collectors, at each scrape ──┐
//	controllers, agent ─► counters ────────┼─► registry ─► GET /metrics (package health)
//	client-go, Go's runtime ─► providers ──┘
//
// Values that can be read are read at the scrape. That costs nothing between scrapes, sends no requests, and
// drops deleted objects automatically. Only the leader has caches, so only the leader exports metrics of
// clusters and bundles.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Type is a metric's type in Prometheus.
type Type string

// The types in use.
const (
	Gauge     Type = "gauge"
	Counter   Type = "counter"
	Histogram Type = "histogram"
)

// Definition defines one metric, in the code and in docs/monitoring.md.
type Definition struct {
	Name   string
	Type   Type
	Labels []string
	// Help is one sentence without a full stop.
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

// group is a section of the documentation.
type group struct {
	// Title is the heading. Text is the paragraph below it.
	Title, Text string
	Definitions []Definition
}

// hubGroups returns the metrics of fleetcontroller.
func hubGroups() []group {
	return []group{
		{"Bundles, clusters and groups", "Per object, from the leader's cache. The names, labels and meanings are the same as in Rancher Fleet. " +
			"Label `state` is the object's state. The metrics `…_state` have one series per state: 1 for the current state and 0 for the others.", stateDefinitions()},
		{"Clusters' agents and registrations", "From the leader's cache. Aggregated over all clusters where one series per cluster would be too many.", fleetDefinitions()},
		{"Work of the controllers", "Counted since the process started.", hubDefinitions()},
		{"The process", "For both processes, in addition to the metrics of the Go runtime, `go_…` and `process_…`.", processDefinitions()},
		{"Handlers of the hub's controllers", "", lassoDefinitions()},
	}
}

// agentGroups returns the metrics of fleetagent that are not in hubGroups.
func agentGroups() []group {
	return []group{{"The agent", "", agentDefinitions()}}
}

// HubAll returns every metric of fleetcontroller.
func HubAll() []Definition {
	var all []Definition
	for _, group := range hubGroups() {
		all = append(all, group.Definitions...)
	}
	return all
}

// AgentAll returns every metric of fleetagent.
func AgentAll() []Definition {
	return append(agentDefinitions(), processDefinitions()...)
}
