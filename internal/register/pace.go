package register

import (
	"io"
	"time"

	"github.com/fleet-hub/fleet/internal/kube"
)

// The pauses between attempts at what time can heal.
const (
	firstPause = time.Second
	longPause  = 15 * time.Second
	// A credential just granted is proven again quickly: its rights are on their way.
	firstProofPause = 100 * time.Millisecond
	longProofPause  = 2 * time.Second
	// longRenewalPause is the pause between two requests that the hub took, where what it grants does not work.
	longRenewalPause = 10 * time.Minute
	// longMovePause is that between two questions at an address where the hub may be one day.
	longMovePause = time.Minute
	// doubtPause is the least time between two questions that the hub's answers to others give rise to.
	doubtPause = 5 * time.Second
)

// pace spaces attempts at one thing: the first at once, then pauses from first doubling to long, each up to
// half longer or shorter by chance, so that a thousand agents do not come back together.
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

// tried counts an attempt made now, and puts the next one off: no less than what the hub asked for in its answer.
func (p *pace) tried(now time.Time, answer error) {
	pause := p.first
	for range p.failed {
		pause = min(2*pause, p.long)
	}
	p.failed = min(p.failed+1, 16)
	p.last, p.due = now, now.Add(max(jitter(pause, p.random), spread(kube.RetryAfter(answer), p.random)))
}

// jitter is d, up to half longer or shorter. Without randomness it is d.
func jitter(d time.Duration, random io.Reader) time.Duration {
	return d + d/2*time.Duration(chance(random)-128)/128
}

// spread is d or up to half longer: never shorter, for somebody asked for d. Without randomness it is a quarter
// longer.
func spread(d time.Duration, random io.Reader) time.Duration {
	return d + d/2*time.Duration(chance(random))/256
}

// chance is a number from 0 to 255, and 128 where there is no randomness.
func chance(random io.Reader) int {
	var one [1]byte
	if _, err := io.ReadFull(random, one[:]); err != nil {
		return 128
	}
	return int(one[0])
}
