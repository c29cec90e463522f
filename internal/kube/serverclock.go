package kube

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// clockTolerance is the largest difference between two clocks that is ignored. An answer takes up to some seconds to
// arrive, and the clocks of several API servers of one cluster may differ a little.
const clockTolerance = 30 * time.Second

// ServerClock tells the time of an API server, which has also set the creation timestamps of all objects. A process
// whose own clock is wrong would otherwise take new objects for expired ones.
type ServerClock struct {
	own func() time.Time
	// ahead is how far the API server's clock is ahead of the process's. It is zero within clockTolerance.
	ahead atomic.Int64
	// differs is called with each new difference.
	differs func(ahead time.Duration)
}

// NewServerClock returns a clock that tells the time of own until an answer of a watched client shows another time.
// It calls differs with each new difference; zero means that the clocks agree again.
func NewServerClock(own func() time.Time, differs func(ahead time.Duration)) *ServerClock {
	return &ServerClock{own: own, differs: differs}
}

// Now returns the API server's time, without a monotonic reading. It may be wrong by up to 30 s, and steps if one of the
// two clocks is set: measure how long something takes with the process's own clock.
func (c *ServerClock) Now() time.Time {
	return c.own().Add(time.Duration(c.ahead.Load())).Round(0)
}

// Watch returns a copy of the configuration whose clients tell the clock the Date of each answer.
func (c *ServerClock) Watch(cfg *rest.Config) *rest.Config {
	return WrapTransport(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		if server, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			c.see(server)
		}
		return answer, nil
	})
}

// see compares the clocks.
func (c *ServerClock) see(server time.Time) {
	ahead, known := server.Sub(c.own()), time.Duration(c.ahead.Load())
	if (ahead - known).Abs() <= clockTolerance {
		return
	}
	if ahead.Abs() <= clockTolerance {
		ahead = 0
	}
	if c.ahead.CompareAndSwap(int64(known), int64(ahead)) {
		c.differs(ahead)
	}
}
