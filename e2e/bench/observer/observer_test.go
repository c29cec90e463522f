package observer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/client"
)

// seeing returns an observer whose clock advances by a second at each event.
func seeing(t *testing.T, lines ...[2]string) *Observer {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := &Observer{registered: map[string]time.Time{}, beaten: map[string]time.Time{}, refused: map[string]bool{}, changed: make(chan struct{})}
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

func TestUnlessRefused_EndsWithTheAnswerOfTheHub(t *testing.T) {
	request := func(name, kind, status string) [2]string {
		return [2]string{client.ClusterRegistrations, `{"type":"` + kind + `","object":{"metadata":{"namespace":"ws","name":"` + name + `"},"spec":{"clientID":"a"},"status":{` + status + `}}}`}
	}
	said := func(status, reason, message string) string {
		return `"conditions":[{"type":"Granted","status":"` + status + `","reason":"` + reason + `","message":"` + message + `"}]`
	}
	tooMany := said("False", "TooManyClusters", "delete some")
	tests := map[string]struct {
		before, then [2]string
		want         string // "" means that the context does not end
	}{
		"refused":                     {request("r", "ADDED", ""), request("r", "MODIFIED", tooMany), `ws/r, TooManyClusters: "delete some"`},
		"refused with a long message": {request("r", "ADDED", ""), request("r", "MODIFIED", said("False", "NameTaken", strings.Repeat("x", 10000))), strings.Repeat("x", 500) + `"`},
		"another one was refused":     {request("q", "ADDED", tooMany), request("r", "ADDED", tooMany), "ws/r"},
		"refused before, seen again":  {request("r", "ADDED", tooMany), request("r", "ADDED", tooMany), ""},
		"waits for its turn":          {request("r", "ADDED", ""), request("r", "MODIFIED", said("False", "TooManyRequests", "")), ""},
		"has no condition":            {request("r", "ADDED", ""), request("r", "MODIFIED", ""), ""},
		"granted":                     {request("r", "ADDED", ""), request("r", "MODIFIED", `"granted":true,`+said("True", "", "")), ""},
		"refused and deleted":         {request("r", "ADDED", ""), request("r", "DELETED", tooMany), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := seeing(t, test.before)
				ctx, cancel := o.UnlessRefused(t.Context())
				defer cancel()
				var event seen
				if err := json.Unmarshal([]byte(test.then[1]), &event); err != nil {
					t.Fatal(err)
				}
				o.see(test.then[0], event)
				synctest.Wait()
				err := context.Cause(ctx)
				if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 700) {
					t.Errorf("ended with %v", err)
				}
			})
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
