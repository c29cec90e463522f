package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// overloaded is an API server with one Lease in a bubble. It answers 429 from one time until another.
type overloaded struct {
	leases
	from, until time.Time
	retryAfter  string // in seconds; empty means that it does not tell
	requests    int    // that it answered with 429
}

func (o *overloaded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") != "" {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: silence(request.Context().Done()), Request: request}, nil
	}
	<-time.After(5 * time.Millisecond)
	answer := httptest.NewRecorder()
	if now := time.Now(); now.Before(o.from) || !now.Before(o.until) {
		o.ServeHTTP(answer, request)
		return answer.Result(), nil
	}
	o.requests++
	if o.retryAfter != "" {
		answer.Header().Set("Retry-After", o.retryAfter)
	}
	kubetest.Answer(answer, http.StatusTooManyRequests, status(metav1.StatusReasonTooManyRequests))
	return answer.Result(), nil
}

// silence is the body of a watch without events.
type silence <-chan struct{}

func (s silence) Read([]byte) (int, error) {
	<-s
	return 0, io.EOF
}

func (silence) Close() error { return nil }

// renewed returns the time of the last renewal.
func (o *overloaded) renewed() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lease.Spec.RenewTime.Time
}

// The times of the chart. A renewal starts ten seconds after the last one, and may take 25.
const chartDuration, chartDeadline, chartRetry = 30 * time.Second, 25 * time.Second, 10 * time.Second

func (o *overloaded) election(identity string) Options {
	return Options{
		Config:    &rest.Config{Host: "http://hub", Transport: o, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Namespace: "system", Name: "lock", Identity: identity, Fence: NewFence(time.Now),
		LeaseDuration: chartDuration, RenewDeadline: chartDeadline, RetryPeriod: chartRetry,
	}
}

// The leadership continues if the overload ends before the lease expires, whatever Retry-After says. After a longer
// overload, the leader has stopped writing before the lease expired, and the next process leads.
func TestOverloadedServer_LeaderKeepsTheLeaseOrStopsWriting(t *testing.T) {
	for name, test := range map[string]struct {
		from, lasts time.Duration // from the start of the leadership; renewals are due at 10 s, 20 s and so on
		retryAfter  string
		lost        bool
	}{
		"24 s from just before a renewal, server asks for 1 s":  {9900 * time.Millisecond, 24 * time.Second, "1", false},
		"15 s from just before a renewal, server asks for 30 s": {9900 * time.Millisecond, 15 * time.Second, "30", false},
		"24 s from just after a renewal, server asks for 30 s":  {10100 * time.Millisecond, 24 * time.Second, "30", false},
		"15 s, no Retry-After":                                  {9900 * time.Millisecond, 15 * time.Second, "", false},
		"a minute, server asks for 1 s":                         {9900 * time.Millisecond, time.Minute, "1", true},
		"a minute, server asks for 30 s":                        {10100 * time.Millisecond, time.Minute, "30", true},
		"a minute, no Retry-After":                              {9900 * time.Millisecond, time.Minute, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &overloaded{from: time.Now().Add(test.from), until: time.Now().Add(test.from + test.lasts), retryAfter: test.retryAfter}
				one := server.election("one")
				var written time.Time // the last time at which a write was not refused
				err := Lead(t.Context(), one, func(ctx context.Context) error {
					for range int((test.from + test.lasts + time.Minute) / time.Second) {
						if one.Fence.check(http.MethodPut) == nil {
							written = time.Now()
						}
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
							return ctx.Err()
						}
					}
					return nil
				})
				t.Logf("ended %s after the overload, which answered %d requests: %v", time.Since(server.until), server.requests, err)
				if errors.Is(err, ErrLeaseLost) != test.lost || !test.lost && err != nil {
					t.Fatalf("error %v, want a lost lease: %t", err, test.lost)
				}
				if test.lost {
					expectSuccessor(t, server, written)
				}
			})
		})
	}
}

// expectSuccessor expects that a leader has stopped writing before others could take its lease, and that the next process
// leads soon.
func expectSuccessor(t *testing.T, server *overloaded, written time.Time) {
	t.Helper()
	if late := written.Sub(server.renewed().Add(chartDuration)); late >= 0 {
		t.Errorf("it could write %s after others could take the lease", late)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := Lead(ctx, server.election("two"), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	// One attempt sees the lease after the overload, and another one takes it once it has not changed for its duration.
	wait, attempt := time.Since(server.until), chartRetry*22/10 // with the jitter of client-go
	t.Logf("the next process leads %s after the overload", wait)
	if wait > 2*attempt+chartDuration+5*time.Second {
		t.Error("that is too late")
	}
}
