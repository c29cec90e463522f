package hub

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"k8s.io/client-go/tools/record"

	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// prepared returns an App for a server with a configuration.
func prepared(t *testing.T, change func(*Options)) *App {
	t.Helper()
	o := options(t, &server{answers: map[string][]any{configPath: {configMap("agentCheckinInterval: 1m")}}}, io.Discard)
	change(&o)
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCacheMetrics_AreExposedByTheLeaderOnly(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a := prepared(t, func(o *Options) { o.Registry = registry })
	if before := metricstest.Scrape(t, registry); before != "" {
		t.Errorf("before the caches are full there is:\n%s", before)
	}
	leading, resign := context.WithCancel(t.Context())
	if err := a.expose(leading); err != nil {
		t.Fatal(err)
	}
	during := metricstest.Scrape(t, registry)
	for _, line := range []string{"fleet_checkin_interval_seconds 60\n", `fleet_clusters{heartbeat="never"} 0`} {
		if !strings.Contains(during, line) {
			t.Errorf("%q is missing in:\n%s", line, during)
		}
	}
	resign()
	g := NewWithT(t)
	g.Eventually(func() string { return metricstest.Scrape(t, registry) }).WithTimeout(time.Minute).Should(BeEmpty())
}

func TestMetrics_AreOptional(t *testing.T) {
	a := prepared(t, func(*Options) {})
	if err := a.expose(t.Context()); err != nil {
		t.Error(err)
	}
	a.Metrics.Registration(metrics.OutcomeGranted) // must not panic either
}

func TestSecondRegistration_IsAnError(t *testing.T) {
	registry := prometheus.NewRegistry()
	a := prepared(t, func(o *Options) { o.Registry = registry })
	if err := a.expose(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.expose(t.Context()); err == nil {
		t.Error("the second one has overwritten the first")
	}
}

func TestTook_RecordsOnlyLongOperations(t *testing.T) {
	tests := map[string]struct {
		took time.Duration
		want []string
	}{
		"a moment: no Event":               {100 * time.Millisecond, nil},
		"five seconds: no Event":           {5 * time.Second, nil},
		"more than five seconds: an Event": {5040 * time.Millisecond, []string{"Normal Done done after 5s"}},
		"rounded to a tenth of a second":   {6345 * time.Millisecond, []string{"Normal Done done after 6.3s"}},
		"clock set back: no Event":         {-time.Minute, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := record.NewFakeRecorder(10)
			(&App{Recorder: recorder}).Took(&fleet.Cluster{}, "Done", "done", test.took)
			var got []string
			for len(recorder.Events) > 0 {
				got = append(got, <-recorder.Events)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvents_AreLimitedAndCounted(t *testing.T) {
	a := prepared(t, func(*Options) {})
	for range 2000 { // they are not written before Start, and the part of the queue for one namespace is shorter
		a.Recorder.Event(&fleet.Cluster{}, "Warning", "Bad", "bad")
	}
	if diff := cmp.Diff([]string{`fleet_events_total{outcome="limited"} 1500`}, metricstest.Counted(t, a.Metrics)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
