package observer

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/client"
)

// seeing returns an observer whose clock advances by a second at each event.
func seeing(t *testing.T, lines ...[2]string) *Observer {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := &Observer{registered: map[string]time.Time{}, beaten: map[string]time.Time{}, changed: make(chan struct{})}
	for i, line := range lines {
		o.clock = func() time.Time { return now.Add(time.Duration(i) * time.Second) }
		var event seen
		if err := json.Unmarshal([]byte(line[1]), &event); err != nil {
			t.Fatal(err)
		}
		o.see(line[0], event)
	}
	return o
}

func TestObserver_MeasuresFirstHeartbeats(t *testing.T) {
	const (
		asks     = `{"type":"ADDED","object":{"spec":{"clientID":"a"}}}`
		asksAnew = `{"type":"MODIFIED","object":{"spec":{"clientID":"a"}}}`
		silent   = `{"type":"ADDED","object":{"spec":{"clientID":"a"},"status":{"agent":{}}}}`
		empty    = `{"type":"MODIFIED","object":{"spec":{"clientID":"a"},"status":{"agent":{"lastSeen":null}}}}`
		beats    = `{"type":"MODIFIED","object":{"spec":{"clientID":"a"},"status":{"agent":{"lastSeen":"2026-01-01T00:00:00Z"}}}}`
		other    = `{"type":"MODIFIED","object":{"spec":{"clientID":"b"},"status":{"agent":{"lastSeen":"2026-01-01T00:00:00Z"}}}}`
		gone     = `{"type":"DELETED","object":{"spec":{"clientID":"a"},"status":{"agent":{"lastSeen":"2026-01-01T00:00:00Z"}}}}`
		nobody   = `{"type":"ADDED","object":{"spec":{},"status":{"agent":{"lastSeen":"2026-01-01T00:00:00Z"}}}}`
	)
	registration := func(line string) [2]string { return [2]string{client.ClusterRegistrations, line} }
	cluster := func(line string) [2]string { return [2]string{client.Clusters, line} }
	tests := map[string]struct {
		lines [][2]string
		want  time.Duration // negative: not both were seen
	}{
		"registration and heartbeat: measured":           {[][2]string{registration(asks), cluster(beats)}, time.Second},
		"Clusters without a heartbeat: ignored":          {[][2]string{registration(asks), cluster(silent), cluster(empty), cluster(beats)}, 3 * time.Second},
		"repeated events: the first one counts":          {[][2]string{registration(asks), registration(asksAnew), cluster(beats), cluster(beats)}, 2 * time.Second},
		"heartbeat of another client: ignored":           {[][2]string{registration(asks), cluster(other)}, -1},
		"deleted Cluster: ignored":                       {[][2]string{registration(asks), cluster(gone)}, -1},
		"Cluster without a registration: ignored":        {[][2]string{registration(asks), cluster(nobody)}, -1},
		"heartbeat without a registration: not measured": {[][2]string{cluster(beats)}, -1},
		"nothing": {nil, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := seeing(t, test.lines...)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			got, err := o.Took(ctx, "a")
			if test.want < 0 {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %s, %v", got, err)
				}
				return
			}
			if got != test.want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestSpan_CoversAllClients(t *testing.T) {
	line := func(id string) string {
		return `{"type":"ADDED","object":{"spec":{"clientID":"` + id + `"},"status":{"agent":{"lastSeen":"2026-01-01T00:00:00Z"}}}}`
	}
	o := seeing(t,
		[2]string{client.ClusterRegistrations, line("b")}, [2]string{client.ClusterRegistrations, line("a")},
		[2]string{client.Clusters, line("a")}, [2]string{client.Clusters, line("c")}, [2]string{client.Clusters, line("b")},
	)
	if got, err := o.Span(t.Context(), []string{"a", "b"}); got != 4*time.Second || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := o.Span(t.Context(), []string{"a"}); got != time.Second || err != nil {
		t.Errorf("one client: got %s, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Span(ctx, []string{"a", "c"}); !errors.Is(err, context.Canceled) {
		t.Errorf("client without a registration: %v", err)
	}
}
