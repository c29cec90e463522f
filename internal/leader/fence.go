package leader

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
)

// Fence keeps a leader from writing once another one may lead. A process that was stopped for a while (a signal, a
// paused machine, one short of memory) goes on in the middle of what it did, and its election tells it only later that
// its time in office is over: by then it would have written beside its successor.
//
//	lease renewed ─► writes pass for the lease's duration ─► refused with ErrLeaseLost, until it is renewed
//
// What was on its way when the process was stopped still arrives: every write must be harmless when it is late.
type Fence struct {
	clock func() time.Time

	mu    sync.Mutex
	until map[string]deadline // by the lease's name
}

// deadline is when a lease that was renewed begins to be free for others, at the earliest.
type deadline struct {
	renewed time.Time // when the request was sent
	lasts   time.Duration
}

// NewFence lets everything pass until a lease was taken.
func NewFence(clock func() time.Time) *Fence {
	return &Fence{clock: clock, until: map[string]deadline{}}
}

// Guard is cfg for the work of a leader: what asks for a change is refused while the lease is not certain.
func (f *Fence) Guard(cfg *rest.Config) *rest.Config {
	return kube.Through(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if err := f.check(request.Method); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // as a RoundTripper must
			}
			return nil, err
		}
		return next.RoundTrip(request)
	})
}

// watch is cfg for the election for one lease: each write of it that is accepted took or renewed it.
func (f *Fence) watch(cfg *rest.Config, lease string, lasts time.Duration) *rest.Config {
	lasts = lasts.Truncate(time.Second) // as the lease has it
	return kube.Through(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
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

// check is an error wrapping ErrLeaseLost for what must not be sent now.
func (f *Fence) check(method string) error {
	if isRead(method) {
		return nil
	}
	now := f.clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for lease, d := range f.until {
		// By both clocks: one of them does not count while a machine is suspended, the other one can be set back.
		if now.Sub(d.renewed) >= d.lasts || now.Round(0).Sub(d.renewed.Round(0)) >= d.lasts {
			return fmt.Errorf("not written, since %s was not renewed in time: %w", lease, ErrLeaseLost)
		}
	}
	return nil
}

func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
