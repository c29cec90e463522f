package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// List returns all objects of a kind from a cache. Callers must not change them. nil means that the kind is not
// cached.
type List[T any] func() ([]T, error)

// stateCollector collects the series of all objects of a kind.
type stateCollector[T metav1.Object] struct {
	kind   kind[T]
	values []*prometheus.Desc
	state  *prometheus.Desc
	list   List[T]
}

func newStateCollector[T metav1.Object](k kind[T], list List[T]) *stateCollector[T] {
	definitions := k.definitions()
	c := &stateCollector[T]{kind: k, list: list}
	for i := range k.values {
		c.values = append(c.values, definitions[i].desc())
	}
	c.state = definitions[len(k.values)].desc()
	return c
}

// Describe sends the descriptions of the metrics.
func (c *stateCollector[T]) Describe(out chan<- *prometheus.Desc) {
	describe(out, c.kind.definitions())
}

// Collect reads the cache.
func (c *stateCollector[T]) Collect(out chan<- prometheus.Metric) {
	if c.list == nil {
		return
	}
	objects, err := c.list()
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.state, err)
		return
	}
	for _, object := range objects {
		c.collect(object, out)
	}
}

func (c *stateCollector[T]) collect(object T, out chan<- prometheus.Metric) {
	state := c.kind.stateOf(object)
	labels := labelsOf(c.state, append(c.kind.labelsOf(object), state)...)
	// One allocation for all series of the object.
	samples := make([]sample, len(c.values)+len(c.kind.states))
	for i, desc := range c.values {
		samples[i] = sample{desc: desc, labels: labels, value: float64(c.kind.values[i].of(object))}
		out <- &samples[i]
	}
	if !slices.Contains(c.kind.states, state) {
		state = c.kind.other
	}
	for i := range c.kind.states {
		s := &samples[len(c.values)+i]
		s.desc, s.labels = c.state, withState(labels, &c.kind.states[i])
		if c.kind.states[i] == state {
			s.value = 1
		}
		out <- s
	}
}
