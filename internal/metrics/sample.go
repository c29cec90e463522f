package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sample is a gauge that is read at the scrape. The series of one object share their labels, because a thousand
// clusters have tens of thousands of series.
type sample struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc returns the metric's description.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write copies the labels and the value to out.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	out.Gauge = &dto.Gauge{Value: &s.value}
	return nil
}

// stateLabel is the label whose value differs between the series of one object.
const stateLabel = "state"

// labelsOf returns the labels of a series with these values. It replaces invalid UTF-8, which would fail the whole scrape.
func labelsOf(desc *prometheus.Desc, values ...string) []*dto.LabelPair {
	for i := range values {
		values[i] = strings.ToValidUTF8(values[i], "\uFFFD")
	}
	return prometheus.MakeLabelPairs(desc, values)
}

// withState returns a copy of the labels with another state.
func withState(labels []*dto.LabelPair, state *string) []*dto.LabelPair {
	other := slices.Clone(labels)
	at := slices.IndexFunc(other, func(pair *dto.LabelPair) bool { return pair.GetName() == stateLabel })
	other[at] = &dto.LabelPair{Name: other[at].Name, Value: state}
	return other
}
