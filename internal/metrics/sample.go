package metrics

import (
	"slices"
	"sort"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sample is a gauge that is read at the scrape. The series of one object share their labels: at a thousand
// clusters there are tens of thousands of series.
type sample struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc is the metric's.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write hands the value out.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	out.Gauge = &dto.Gauge{Value: &s.value}
	return nil
}

// layout is the order in which the labels of a kind are handed out: sorted by name.
type layout struct {
	names []string
	// from has for each name where its value is among those of the object; -1 is the state.
	from []int
}

// stateLabel is the label whose value differs among the series of one object.
const stateLabel = "state"

// newLayout takes the names in the order of the values; the state comes last.
func newLayout(names []string) layout {
	l := layout{names: append(slices.Clone(names), stateLabel)}
	sort.Strings(l.names)
	for _, name := range l.names {
		l.from = append(l.from, slices.Index(names, name))
	}
	return l
}

// pairs are the labels of an object in a state. Text that is no UTF-8 would fail the whole scrape.
func (l layout) pairs(values []string, state string) []*dto.LabelPair {
	backing := make([]dto.LabelPair, len(l.names))
	pairs := make([]*dto.LabelPair, len(l.names))
	for i, from := range l.from {
		value := state
		if from >= 0 {
			value = values[from]
		}
		value = strings.ToValidUTF8(value, "�")
		backing[i].Name, backing[i].Value = &l.names[i], &value
		pairs[i] = &backing[i]
	}
	return pairs
}

// withState are the labels with another state.
func (l layout) withState(pairs []*dto.LabelPair, state *string) []*dto.LabelPair {
	at := slices.Index(l.from, -1)
	other := slices.Clone(pairs)
	other[at] = &dto.LabelPair{Name: &l.names[at], Value: state}
	return other
}
