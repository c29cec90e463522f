package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// distribution is a histogram of the current values. It is filled again at each scrape.
type distribution struct {
	bounds []float64
	counts map[float64]uint64
	count  uint64
	sum    float64
}

func newDistribution(bounds []float64) *distribution {
	d := &distribution{bounds: bounds, counts: map[float64]uint64{}}
	for _, bound := range bounds {
		d.counts[bound] = 0
	}
	return d
}

func (d *distribution) observe(age time.Duration) {
	d.count++
	d.sum += age.Seconds()
	for _, bound := range d.bounds {
		if age.Seconds() <= bound {
			d.counts[bound]++ // cumulative, as Prometheus expects
		}
	}
}

func (d *distribution) metric(desc *prometheus.Desc) prometheus.Metric {
	return prometheus.MustNewConstHistogram(desc, d.count, d.sum, d.counts)
}
