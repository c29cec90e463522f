package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stopGrace bounds how long the lease is held on to after the context has ended while run winds up.
const stopGrace = 15 * time.Second

// term is one time in office: at most one, since Lead returns at its end.
type term struct {
	run            func(context.Context) error
	cancelWork     context.CancelFunc
	cancelElection context.CancelFunc

	mu      sync.Mutex
	started bool
	ending  bool

	// done is closed when run has returned; err and lost are set before.
	done chan struct{}
	err  error
	lost bool
}

// serve runs the work and ends the election after it. The elector calls it in a goroutine of its own,
// with a context that ends when the lease is lost.
func (t *term) serve(lease, work context.Context) {
	t.mu.Lock()
	if t.ending {
		t.mu.Unlock()
		return // elected in the moment of leaving
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

// end is called when the caller's context has ended: the work is told by its own context and ends the
// election when it returns; without work the election ends at once.
func (t *term) end() {
	if !t.leave() || !t.finished() {
		t.cancelElection()
	}
}

// result says how the term ended. The elector has returned, so the lease is lost or released.
func (t *term) result(ctx context.Context) error {
	t.cancelWork()
	started := t.leave()
	switch {
	case !started && ctx.Err() != nil:
		return nil //nolint:nilerr // the caller asked for the end
	case !started:
		return ErrLeaseLost
	case !t.finished():
		return fmt.Errorf("%w, and the work did not end within %s", ErrLeaseLost, stopGrace)
	case t.lost && ctx.Err() == nil:
		return errors.Join(ErrLeaseLost, unlessCanceled(t.err))
	default:
		return unlessCanceled(t.err)
	}
}

// leave forbids work that has not begun and says whether any has.
func (t *term) leave() (started bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
	return t.started
}

// finished waits for the work's end, but not longer than stopGrace.
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

// unlessCanceled drops the error that only repeats that the context ended.
func unlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
