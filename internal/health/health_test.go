package health

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestProbes(t *testing.T) {
	tests := map[string]struct {
		tell func(*State)
		path string
		code int
		body string
	}{
		"alive from the start":                             {path: "/healthz", code: http.StatusOK, body: "ok\n"},
		"not ready from the start":                         {path: "/readyz", code: http.StatusServiceUnavailable, body: "starting\n"},
		"ready after SetReady(true)":                       {tell: told(true, "leading"), path: "/readyz", code: http.StatusOK, body: "leading\n"},
		"not ready after SetReady(false), with the reason": {tell: told(false, "no credential"), path: "/readyz", code: http.StatusServiceUnavailable, body: "no credential\n"},
		"alive while not ready":                            {tell: told(false, "no credential"), path: "/healthz", code: http.StatusOK, body: "ok\n"},
		"metrics are served at another address":            {path: "/metrics", code: http.StatusNotFound, body: "404 page not found\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state := &State{}
			if test.tell != nil {
				test.tell(state)
			}
			at, err := Start(t.Context(), Options{HealthAddress: "127.0.0.1:0", State: state})
			if err != nil {
				t.Fatal(err)
			}
			code, body := get(t, at.Health+test.path)
			if code != test.code || body != test.body {
				t.Errorf("got %d %q, want %d %q", code, body, test.code, test.body)
			}
		})
	}
}

func told(ready bool, reason string) func(*State) {
	return func(s *State) { s.SetReady(ready, reason) }
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "fleet_test_total", Help: "For this test."})
	registry.MustRegister(counter)
	counter.Inc()
	at, err := Start(t.Context(), Options{MetricsAddress: "127.0.0.1:0", State: &State{}, Gatherer: registry})
	if err != nil {
		t.Fatal(err)
	}
	if at.Health != "" {
		t.Errorf("health is served at %s without an address", at.Health)
	}
	if code, body := get(t, at.Metrics+"/metrics"); code != http.StatusOK || !strings.Contains(body, "fleet_test_total 1") {
		t.Errorf("got %d %s", code, body)
	}
}

func TestNoAddresses_ServesNothing(t *testing.T) {
	at, err := Start(t.Context(), Options{HealthAddress: "0", State: &State{}})
	if err != nil || at != (Addresses{}) {
		t.Errorf("got %+v, %v", at, err)
	}
}

func TestPortInUse_StartFails(t *testing.T) {
	at, err := Start(t.Context(), Options{HealthAddress: "127.0.0.1:0", State: &State{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{HealthAddress: at.Health, State: &State{}}); err == nil || !strings.HasPrefix(err.Error(), "listening for health") {
		t.Errorf("health: error %v", err)
	}
	if _, err := Start(t.Context(), Options{MetricsAddress: at.Health, State: &State{}}); err == nil || !strings.HasPrefix(err.Error(), "listening for metrics") {
		t.Errorf("metrics: error %v", err)
	}
}

func TestServers_StopWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	at, err := Start(ctx, Options{HealthAddress: "127.0.0.1:0", State: &State{}})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for { // Close runs beside us
		response, err := http.Get("http://" + at.Health + "/healthz")
		if err != nil {
			return
		}
		_ = response.Body.Close()
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// broken is a gatherer that returns some metrics and an error.
type broken struct{ prometheus.Gatherer }

func (b broken) Gather() ([]*dto.MetricFamily, error) {
	families, _ := b.Gatherer.Gather()
	return families, errors.New("a cache cannot be read")
}

func TestUnavailablePart_DoesNotHideTheRest(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "fleet_there", Help: "For this test"}))
	var log bytes.Buffer
	at, err := Start(t.Context(), Options{
		MetricsAddress: "127.0.0.1:0", State: &State{}, Gatherer: broken{registry}, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	code, body := get(t, at.Metrics+"/metrics")
	if code != http.StatusOK || !strings.Contains(body, "fleet_there 0\n") {
		t.Errorf("got %d %q", code, body)
	}
	if !strings.Contains(log.String(), "a cache cannot be read") {
		t.Errorf("the log says %q", log.String())
	}
}

func TestProfiles(t *testing.T) {
	at, err := Start(t.Context(), Options{ProfilesAddress: "127.0.0.1:0", Profiles: http.NotFoundHandler(), State: &State{}})
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := get(t, at.Profiles+"/healthz"); code != http.StatusNotFound {
		t.Errorf("got %d", code)
	}
	if off, err := Start(t.Context(), Options{Profiles: http.NotFoundHandler(), State: &State{}}); err != nil || off.Profiles != "" {
		t.Errorf("serves at %q, %v", off.Profiles, err)
	}
}

// waiting is a gatherer that signals a call and waits.
type waiting struct{ asked, goOn chan struct{} }

func (w waiting) Gather() ([]*dto.MetricFamily, error) {
	w.asked <- struct{}{}
	<-w.goOn
	return nil, nil
}

func TestConcurrentScrapes_AreLimited(t *testing.T) {
	gatherer := waiting{asked: make(chan struct{}), goOn: make(chan struct{})}
	at, err := Start(t.Context(), Options{MetricsAddress: "127.0.0.1:0", State: &State{}, Gatherer: gatherer})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range scrapes {
		group.Go(func() {
			response, err := http.Get("http://" + at.Metrics + "/metrics")
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close() // unread: nothing is in it
		})
		<-gatherer.asked
	}
	if code, _ := get(t, at.Metrics+"/metrics"); code != http.StatusServiceUnavailable {
		t.Errorf("one scrape more returned %d", code)
	}
	close(gatherer.goOn)
	group.Wait()
}

func TestTooLargeHeader_IsRefused(t *testing.T) {
	at, err := Start(t.Context(), Options{HealthAddress: "127.0.0.1:0", State: &State{}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.Health+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Long", strings.Repeat("x", 2*headerLimit))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s", response.Status)
	}
}
