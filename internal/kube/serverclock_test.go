package kube_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
)

func TestServerClock_TellsTheTimeOfTheLastAnswer(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		dates  []string // of the answers
		want   time.Duration
		differ []time.Duration
	}{
		"no answer yet":                  {},
		"the same time":                  {dates: []string{date(now)}},
		"delayed answer":                 {dates: []string{date(now.Add(-20 * time.Second))}},
		"a clock a day ahead":            {dates: []string{date(now.Add(-24 * time.Hour))}, want: -24 * time.Hour, differ: []time.Duration{-24 * time.Hour}},
		"a clock a day behind":           {dates: []string{date(now.Add(24 * time.Hour))}, want: 24 * time.Hour, differ: []time.Duration{24 * time.Hour}},
		"another answer at about a time": {dates: []string{date(now.Add(time.Hour)), date(now.Add(time.Hour + 10*time.Second))}, want: time.Hour, differ: []time.Duration{time.Hour}},
		"clock was changed":              {dates: []string{date(now.Add(time.Hour)), date(now.Add(time.Second))}, differ: []time.Duration{time.Hour, 0}},
		"answer without a time":          {dates: []string{date(now.Add(time.Hour)), "", "yesterday"}, want: time.Hour, differ: []time.Duration{time.Hour}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			answers := tc.dates
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = answers[:1]
				answers = answers[1:]
			}))
			defer server.Close()
			var differed []time.Duration
			clock := kube.NewServerClock(func() time.Time { return now }, func(ahead time.Duration) { differed = append(differed, ahead) })
			client, err := rest.HTTPClientFor(clock.Watch(&rest.Config{Host: server.URL}))
			if err != nil {
				t.Fatal(err)
			}
			for range tc.dates {
				answer, err := client.Get(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				if err := answer.Body.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if got := clock.Now().Sub(now); got != tc.want {
				t.Errorf("the clock is %v ahead of the process's, want %v", got, tc.want)
			}
			if diff := cmp.Diff(tc.differ, differed); diff != "" {
				t.Errorf("reported differences (-want +got):\n%s", diff)
			}
		})
	}
}

func date(t time.Time) string { return t.Format(http.TimeFormat) }
