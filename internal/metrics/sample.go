package metrics

import (
	"slices"
	"sort"
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

// layout is the order of the labels of a kind: sorted by name.
type layout struct {
	names []string
	// from contains, for each name, the index of its value among the object's values; -1 means the state.
	from []int
}

// stateLabel is the label whose value differs between the series of one object.
const stateLabel = "state"

// newLayout returns the layout for names in the order of the values. The state is last.
func newLayout(names []string) layout {
	l := layout{names: append(slices.Clone(names), stateLabel)}
	sort.Strings(l.names)
	for _, name := range l.names {
		l.from = append(l.from, slices.Index(names, name))
	}
	return l
}

// pairs returns the labels of an object in a state. It replaces invalid UTF-8, which would fail the whole
// scrape.
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

// withState returns a copy of the labels with another state.
func (l layout) withState(pairs []*dto.LabelPair, state *string) []*dto.LabelPair {
	at := slices.Index(l.from, -1)
	other := slices.Clone(pairs)
	other[at] = &dto.LabelPair{Name: &l.names[at], Value: state}
	return other
}
