package leader

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// renewal is one renewal of a lease.
type renewal struct {
	holder string
	at     time.Time
}

func renewalOf(lease *coordinationv1.Lease) renewal {
	r := renewal{}
	if lease.Spec.HolderIdentity != nil {
		r.holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		r.at = lease.Spec.RenewTime.Time
	}
	return r
}

// is reports whether a holder renewed the lease at that time, and not since.
func (r renewal) is(holder string, at time.Time) bool {
	return r.holder != "" && r.holder == holder && r.at.Equal(at)
}

// expiry knows the last renewal of a lease that a watch has seen, and whether it has expired since. client-go would
// notice an expired lease only when it looks again, up to 2.2 retry periods later.
//
// Like client-go, it counts from the moment in which the renewal was seen, by the clock of this process, so clocks of
// different machines are not compared.
type expiry struct {
	mu      sync.Mutex
	last    renewal
	expired bool
	timer   *time.Timer
}

// see records what a watch reports of the lease, and calls ended when that renewal has expired. An unchanged lease, which
// each new watch reports first, changes nothing.
func (e *expiry) see(lease *coordinationv1.Lease, ended func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := renewalOf(lease)
	if e.last.is(now.holder, now.at) || lease.Spec.LeaseDurationSeconds == nil {
		return
	}
	e.stopTimer()
	e.last, e.expired = now, false
	e.timer = time.AfterFunc(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, func() {
		if e.expire(now) {
			ended()
		}
	})
}

// expire reports whether a renewal is still the last one, which has then expired.
func (e *expiry) expire(r renewal) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.last.is(r.holder, r.at) {
		return false // renewed in the same moment
	}
	e.expired = true
	return true
}

// of reports whether a record is the renewal that has expired.
func (e *expiry) of(record *resourcelock.LeaderElectionRecord) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.expired && e.last.is(record.HolderIdentity, record.RenewTime.Time)
}

// stop ends the timer.
func (e *expiry) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopTimer()
}

func (e *expiry) stopTimer() {
	if e.timer != nil {
		e.timer.Stop()
	}
}
