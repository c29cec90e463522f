package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stopGrace limits how long the lease is renewed while run returns after its context has ended. After that, it expires.
const stopGrace = 15 * time.Second

// errNotEnded means that the work still runs, so that none of its leases may be released.
var errNotEnded = fmt.Errorf("the work did not end within %s", stopGrace)

// term is one period of leadership. There is at most one per Lead.
type term struct {
	run            func(context.Context) error
	cancelWork     context.CancelFunc
	cancelElection context.CancelFunc

	mu      sync.Mutex
	started bool
	ending  bool

	// done is closed when run has returned. err and lost are set before.
	done chan struct{}
	err  error
	lost bool
}

// serve runs the work and ends the election afterwards. The elector calls it in its own goroutine, with a
// context that ends when the lease is lost.
func (t *term) serve(lease, work context.Context) {
	t.mu.Lock()
	if t.ending {
		t.mu.Unlock()
		return // elected while shutting down
	}
	t.started = true
	t.mu.Unlock()
	stop := context.AfterFunc(lease, t.cancelWork)
	defer stop()
	t.err = t.run(work)
	t.lost = lease.Err() != nil
	close(t.done)
	t.cancelElection()
}

// end is called when the caller's context has ended. Running work sees that on its own context and ends the
// election when it returns. If no work runs, the election ends immediately.
func (t *term) end() {
	if !t.leave() || !t.finished() {
		t.cancelElection()
	}
}

// result returns how the term ended. The elector has returned, so the lease is no longer renewed.
func (t *term) result(ctx context.Context) error {
	t.cancelWork()
	started := t.leave()
	switch {
	case !started && ctx.Err() != nil:
		return nil //nolint:nilerr // the caller requested the end
	case !started:
		return ErrLeaseLost
	case !t.finished():
		return fmt.Errorf("%w, and %w", ErrLeaseLost, errNotEnded)
	case t.lost && ctx.Err() == nil:
		return errors.Join(ErrLeaseLost, unlessCanceled(t.err))
	default:
		return unlessCanceled(t.err)
	}
}

// over reports whether no work runs and none will start, after result has returned.
func (t *term) over() bool {
	if !t.leave() {
		return true
	}
	select {
	case <-t.done:
		return !errors.Is(t.err, errNotEnded) // with several leases, the work is another term
	default:
		return false
	}
}

// leave prevents work that has not started, and reports whether work has started.
func (t *term) leave() (started bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
	return t.started
}

// finished waits for the end of the work, but not longer than stopGrace, and reports whether it has ended.
func (t *term) finished() bool {
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-t.done:
		return true
	case <-timer.C:
		return false
	}
}

// unlessCanceled drops an error that only reports the end of the context.
func unlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
