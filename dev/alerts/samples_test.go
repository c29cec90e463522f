package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	scrapes = "../../internal/metrics/testdata/alerts"
	// span is the time between the two scrapes of a scenario, step the interval of the interpolated samples in
	// between.
	span, step = 2 * time.Hour, time.Minute
)

// begin is the start time of all scenarios.
var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// sample is one sample of a series.
type sample struct {
	t int64 // in milliseconds
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// memory is an in-memory storage of series for the query engine.
type memory struct{ series []storage.Series }

// load returns the samples of a scenario: the values of each target at the beginning and at the end, and linearly
// interpolated values in between.
func load(t *testing.T, scenario string) *memory {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(scrapes, scenario+".*.start.prom"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scrapes of scenario %s: %v", scenario, err)
	}
	m := &memory{}
	for _, file := range files {
		target := strings.Split(filepath.Base(file), ".")[1]
		end := parse(t, strings.TrimSuffix(file, "start.prom")+"end.prom", target)
		start := parse(t, file, target)
		up := labels.NewBuilder(targetLabels(target)).Set(labels.MetricName, "up").Labels()
		m.series = append(m.series, storage.NewListSeries(up, between(1, 1)))
		for key, last := range end {
			m.series = append(m.series, storage.NewListSeries(last.labels, between(start[key].value, last.value)))
		}
	}
	return m
}

func between(from, to float64) (samples []chunks.Sample) {
	for at := time.Duration(0); at <= span; at += step {
		current := to
		if from != to { // also avoids interpolating between two +Inf
			current = from + (to-from)*float64(at)/float64(span)
		}
		samples = append(samples, sample{t: begin.Add(at).UnixMilli(), f: current})
	}
	return samples
}

// set gives the series of a selector other values at the beginning and at the end.
func (m *memory) set(t *testing.T, selector string, from, to float64) {
	t.Helper()
	matchers, err := parser.ParseMetricSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, series := range m.series {
		if matches(series, matchers) {
			m.series[i] = storage.NewListSeries(series.Labels(), between(from, to))
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%d series match %s", found, selector)
	}
}

// addClusters adds clusters that last reported at these times after the beginning, at the beginning and at the end.
func (m *memory) addClusters(n int, seen [2]time.Duration) {
	added := between(float64(begin.Add(seen[0]).Unix()), float64(begin.Add(seen[1]).Unix()))
	for i := range n {
		metric := labels.NewBuilder(targetLabels("hub-1")).Set(labels.MetricName, "fleet_cluster_last_seen_timestamp_seconds").
			Set("namespace", "fleet-default").Set("name", fmt.Sprint("cluster-", i)).Labels()
		m.series = append(m.series, storage.NewListSeries(metric, added))
	}
}

// interrupt lets a target answer only every fifth scrape. After a failed scrape, Prometheus marks the series as stale.
func (m *memory) interrupt(target string) {
	for i, series := range m.series {
		if series.Labels().Get("instance") != target {
			continue
		}
		down := math.Float64frombits(value.StaleNaN)
		if series.Labels().Get(labels.MetricName) == "up" {
			down = 0
		}
		var samples []chunks.Sample
		for it := series.Iterator(nil); it.Next() != chunkenc.ValNone; {
			at, current := it.At()
			if len(samples)%5 != 0 {
				current = down
			}
			samples = append(samples, sample{t: at, f: current})
		}
		m.series[i] = storage.NewListSeries(series.Labels(), samples)
	}
}

func matches(series storage.Series, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(matcher *labels.Matcher) bool { return !matcher.Matches(series.Labels().Get(matcher.Name)) })
}

type scraped struct {
	labels labels.Labels
	value  float64
}

// targetLabels returns the labels that Prometheus adds to the samples of a target: those of the Operator for the
// documented ServiceMonitor, and for a PodMonitor of agents.
func targetLabels(target string) labels.Labels {
	pod := []string{"instance", target, "pod", target, "namespace", "cattle-fleet-system"}
	switch kind, _, _ := strings.Cut(target, "-"); kind {
	case "agent":
		return labels.FromStrings(append(pod, "job", "cattle-fleet-system/fleet-agent", "container", "fleet-agent")...)
	case "shard":
		pod = append(pod, "job", "monitoring-fleet-controller-shard-a", "service", "monitoring-fleet-controller-shard-a")
	default:
		pod = append(pod, "job", "monitoring-fleet-controller", "service", "monitoring-fleet-controller")
	}
	return labels.FromStrings(append(pod, "container", "fleet-controller", "endpoint", "metrics")...)
}

// endpoint is the endpoint of the ServiceMonitor in docs/monitoring.md.
var endpoint = regexp.MustCompile(`(?m)^  - \{port: metrics(, honorLabels: true)?\}$`)

// honorsLabels reports whether the labels of the target's metrics win over those of the target. Agents have the
// default.
func honorsLabels(t *testing.T, target string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := endpoint.FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no endpoint of a ServiceMonitor", page)
	}
	return len(found[1]) > 0 && !strings.HasPrefix(target, "agent")
}

// addTargetLabels adds the labels of the target to those of a metric, as Prometheus does.
func addTargetLabels(metric, target labels.Labels, honor bool) labels.Labels {
	all := labels.NewBuilder(metric)
	target.Range(func(l labels.Label) {
		own := metric.Get(l.Name)
		if own != "" && honor {
			return
		}
		if own != "" {
			all.Set("exported_"+l.Name, own)
		}
		all.Set(l.Name, l.Value)
	})
	return all.Labels()
}

// parse reads one scrape and adds the labels that Prometheus adds.
func parse(t *testing.T, file, target string) map[string]scraped {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	added, honor := targetLabels(target), honorsLabels(t, target)
	found := map[string]scraped{}
	scrape := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := scrape.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var ls labels.Labels
		scrape.Labels(&ls)
		ls = addTargetLabels(ls, added, honor)
		_, _, current := scrape.Series()
		found[ls.String()] = scraped{labels: ls, value: current}
	}
}

// Querier implements storage.Queryable.
func (m *memory) Querier(_, _ int64) (storage.Querier, error) { return m, nil }

// Select returns the matching series.
func (m *memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &found{at: -1}
	for _, series := range m.series {
		if matches(series, matchers) {
			set.series = append(set.series, series)
		}
	}
	slices.SortFunc(set.series, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return set
}

// LabelValues is not used by the engine.
func (*memory) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames is not used by the engine.
func (*memory) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close does nothing.
func (*memory) Close() error { return nil }

// found is an iterator over series.
type found struct {
	series []storage.Series
	at     int
}

func (f *found) Next() bool                        { f.at++; return f.at < len(f.series) }
func (f *found) At() storage.Series                { return f.series[f.at] }
func (f *found) Err() error                        { return nil }
func (f *found) Warnings() annotations.Annotations { return nil }
