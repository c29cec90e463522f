package leader

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
)

// Fence keeps a leader from writing when another one may lead. A process that was paused (a signal, a suspended
// machine, memory pressure) resumes in the middle of its work, and its election detects only later that the
// lease has expired. By then it might write at the same time as its successor.
//
//	lease renewed ─► writes pass for the lease's duration ─► refused with ErrLeaseLost, until it is renewed
//
// Requests that were sent before the pause still arrive, so every write must be harmless when it is late.
type Fence struct {
	clock func() time.Time

	mu    sync.Mutex
	until map[string]deadline // by name of the lease
}

// deadline is the earliest time at which other processes may acquire a lease that was renewed.
type deadline struct {
	renewed time.Time // when the request was sent
	lasts   time.Duration
}

// NewFence returns a Fence that allows all writes until the first lease is acquired.
func NewFence(clock func() time.Time) *Fence {
	return &Fence{clock: clock, until: map[string]deadline{}}
}

// Guard returns a copy of cfg for the work of a leader. It refuses writes while the lease may have expired.
func (f *Fence) Guard(cfg *rest.Config) *rest.Config {
	return kube.WrapTransport(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if err := f.check(request.Method); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // as RoundTripper requires
			}
			return nil, err
		}
		return next.RoundTrip(request)
	})
}

// watch returns a copy of cfg for the election for one lease. Each accepted write acquires or renews the lease.
func (f *Fence) watch(cfg *rest.Config, lease string, lasts time.Duration) *rest.Config {
	lasts = lasts.Truncate(time.Second) // a Lease stores whole seconds
	return kube.WrapTransport(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		sent := f.clock()
		answer, err := next.RoundTrip(request)
		if err == nil && !isRead(request.Method) && answer.StatusCode < http.StatusMultipleChoices {
			f.mu.Lock()
			f.until[lease] = deadline{renewed: sent, lasts: lasts}
			f.mu.Unlock()
		}
		return answer, err
	})
}

// close refuses writes from now on, because the lease is released. Only its next renewal allows them again.
func (f *Fence) close(lease string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until[lease] = deadline{}
}

// check returns an error that wraps ErrLeaseLost if the request must not be sent now.
func (f *Fence) check(method string) error {
	if isRead(method) {
		return nil
	}
	now := f.clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for lease, d := range f.until {
		// Check both clocks: one does not advance while a machine is suspended, the other can be set back.
		if now.Sub(d.renewed) >= d.lasts || now.Round(0).Sub(d.renewed.Round(0)) >= d.lasts {
			return fmt.Errorf("refusing to write because Lease %s was not renewed in time: %w", lease, ErrLeaseLost)
		}
	}
	return nil
}

func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
