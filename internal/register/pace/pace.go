// Package pace schedules the next attempt of an operation that failed.
//
//	attempt ─ Tried ─► twice the last pause, at random, not before Retry-After ─ Until ─► next attempt
//	           Reset, Spare, Schedule: earlier, or at a time
package pace

import (
	"io"
	"time"

	"github.com/fleet-hub/fleet/internal/kube"
)

// Pace spaces the attempts at one operation. The first attempt is due at once. The pauses double from first to
// long. Each pause is up to 50 % shorter or longer at random, so that a thousand agents do not retry together.
type Pace struct {
	first, long time.Duration
	random      io.Reader

	failed int
	last   time.Time // time of the last attempt
	due    time.Time // time of the next attempt; zero means now
}

// New returns a Pace whose first attempt is due now.
func New(first, long time.Duration, random io.Reader) Pace {
	return Pace{first: first, long: long, random: random}
}

// Schedule makes the next attempt due at a time.
func (p *Pace) Schedule(at time.Time) { p.due = at }

// IsScheduled reports whether the next attempt has a time. Otherwise it is due now.
func (p *Pace) IsScheduled() bool { return !p.due.IsZero() }

// Reset makes the next attempt due at once.
func (p *Pace) Reset() { p.failed, p.due = 0, time.Time{} }

// Spare makes the next attempt due at once, but not before pause has passed since the last attempt.
func (p *Pace) Spare(pause time.Duration) {
	p.Reset()
	if !p.last.IsZero() {
		p.due = p.last.Add(pause)
	}
}

// Until returns the time from now to the next attempt. Zero or less means now.
func (p *Pace) Until(now time.Time) time.Duration {
	if p.due.IsZero() {
		return 0
	}
	return p.due.Sub(now)
}

// Tried records an attempt made now and schedules the next one, not before the Retry-After of the hub's answer.
func (p *Pace) Tried(now time.Time, answer error) {
	pause := p.first
	for range p.failed {
		pause = min(2*pause, p.long)
	}
	p.failed = min(p.failed+1, 16)
	p.last, p.due = now, now.Add(max(Jitter(pause, p.random), Spread(kube.RetryAfter(answer), p.random)))
}

// Settle is Tried for an attempt that failed. After one that succeeded, the next attempt is due at once.
func (p *Pace) Settle(now time.Time, err error) {
	if p.Tried(now, err); err == nil {
		p.Reset()
	}
}

// Jitter returns d, randomly up to 50 % shorter or longer. If random fails, it returns d.
func Jitter(d time.Duration, random io.Reader) time.Duration {
	return d + d/2*time.Duration(chance(random)-128)/128
}

// Spread returns d, randomly up to 50 % longer. It is never shorter, because the server asked for d. If random
// fails, it returns d plus 25 %.
func Spread(d time.Duration, random io.Reader) time.Duration {
	return d + d/2*time.Duration(chance(random))/256
}

// chance returns a random number from 0 to 255, or 128 if random fails.
func chance(random io.Reader) int {
	var one [1]byte
	if _, err := io.ReadFull(random, one[:]); err != nil {
		return 128
	}
	return int(one[0])
}

// FineChance returns a random number from 0 to 65535, or 32768, the middle, if random fails.
func FineChance(random io.Reader) int { return chance(random)<<8 | (chance(random) ^ 128) }
