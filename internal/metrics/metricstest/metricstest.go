// Package metricstest reads metrics in tests as a scrape would.
package metricstest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Scrape returns the whole text of a scrape.
func Scrape(t testing.TB, from prometheus.Gatherer) string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// Collect returns the text of some collectors. It also checks their series against their descriptions.
func Collect(t testing.TB, collectors ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	return Scrape(t, registry)
}

// Counted returns the sorted series of a collector that are not 0, without the buckets of histograms.
func Counted(t testing.TB, collector prometheus.Collector) (found []string) {
	t.Helper()
	for line := range strings.Lines(Collect(t, collector)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket") && !strings.HasSuffix(line, " 0") {
			found = append(found, line)
		}
	}
	slices.Sort(found)
	return found
}
