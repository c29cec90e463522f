package heartbeat

import (
	"sync"
	"time"
)

// Pulse records the last heartbeat of a process, for all its identities. The hub detects the first use of a new
// identity by a changed lastSeen. Without Pulse, an agent that registers again within a second would send the
// same lastSeen with the new identity as with the old. The zero value is ready to use. Pulse is safe for
// concurrent use.
type Pulse struct {
	mu   sync.Mutex
	last time.Time
}

// left returns the time until a heartbeat can report another second than the last one. It is at most one second,
// even if the clock was set back.
func (p *Pulse) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() || !now.Truncate(time.Second).Equal(p.last.Truncate(time.Second)) {
		return 0
	}
	return now.Truncate(time.Second).Add(time.Second).Sub(now)
}

func (p *Pulse) beat(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = at
}
