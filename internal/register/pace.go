package register

import (
	"io"
	"time"
)

// The pauses between attempts at what time can heal.
const (
	firstPause = time.Second
	longPause  = 15 * time.Second
	// A credential just granted is proven again quickly: its rights are on their way.
	firstProofPause = 100 * time.Millisecond
	longProofPause  = 2 * time.Second
	// doubtPause is the least time between two questions that the hub's answers to others give rise to.
	doubtPause = 5 * time.Second
)

// pace spaces attempts at one thing: the first at once, then pauses from first doubling to long, each a
// tenth longer or shorter by chance, so that a thousand agents do not come back together.
type pace struct {
	first, long time.Duration
	random      io.Reader

	failed int
	last   time.Time // of the last attempt
	due    time.Time // of the next; zero means now
}

// reset makes the next attempt due at once.
func (p *pace) reset() { p.failed, p.due = 0, time.Time{} }

// spare makes the next attempt due at once, but not sooner than the pause after the last.
func (p *pace) spare(pause time.Duration) {
	p.reset()
	if !p.last.IsZero() {
		p.due = p.last.Add(pause)
	}
}

// until is how long to wait from now for the next attempt; zero or less means now.
func (p *pace) until(now time.Time) time.Duration {
	if p.due.IsZero() {
		return 0
	}
	return p.due.Sub(now)
}

// tried counts an attempt made now, and puts the next one off.
func (p *pace) tried(now time.Time) {
	pause := p.first
	for range p.failed {
		pause = min(2*pause, p.long)
	}
	p.failed = min(p.failed+1, 16)
	p.last, p.due = now, now.Add(jitter(pause, p.random))
}

// jitter is d, up to a tenth longer or shorter. Without randomness it is d.
func jitter(d time.Duration, random io.Reader) time.Duration {
	var one [1]byte
	if _, err := io.ReadFull(random, one[:]); err != nil {
		return d
	}
	return d + d/10*time.Duration(int(one[0])-128)/128
}
