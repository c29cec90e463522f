package heartbeat

import (
	"sync"
	"time"
)

// Pulse remembers the last heartbeat of a process, whatever identity sent it. The hub tells the first use of a
// new identity by a lastSeen that has changed; an agent that registers anew within a second would otherwise say
// with the new one what it has just said with the old. The zero value has not beaten yet; it is safe for
// concurrent use.
type Pulse struct {
	mu   sync.Mutex
	last time.Time
}

// left is the time until a heartbeat can say a later second than the last one; not more than a second, also
// where the clock was set back.
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
