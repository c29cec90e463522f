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

// describe sends the descriptions of metrics.
func describe(out chan<- *prometheus.Desc, definitions []Definition) {
	for _, d := range definitions {
		out <- d.desc()
	}
}

// now returns a gauge with its current value.
func (d Definition) now(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d.desc(), prometheus.GaugeValue, value, labels...)
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
