package register

import (
	"io"
	"time"

	"github.com/fleet-hub/fleet/internal/kube"
)

// The pauses between attempts at an operation that may succeed later.
const (
	firstPause = time.Second
	longPause  = 15 * time.Second
	// A new credential is tested again quickly, because its rights are being granted.
	firstProofPause = 100 * time.Millisecond
	longProofPause  = 2 * time.Second
	// longRenewalPause is the longest pause between two requests that the hub accepted but whose credentials do not
	// work.
	longRenewalPause = 10 * time.Minute
	// longMovePause is the longest pause between two tests at the address in the bootstrap secret, where no hub may
	// run yet.
	longMovePause = time.Minute
	// A token expires a quarter of its lifetime after its renewal is due at the latest, which is at least two minutes.
	firstTokenPause = 5 * time.Second
	longTokenPause  = 10 * time.Minute
	// A recovery request that the hub refuses or does not grant is repeated ever more slowly.
	firstRecoveryPause = 10 * time.Second
	longRecoveryPause  = 2 * time.Minute
	longDocumentPause  = 5 * time.Minute
	// longKeepPause is the longest pause between two attempts to read the recovery Secret.
	longKeepPause = time.Minute
	// What the hub has for a recovery is read about once a day, or sooner until there is something. A token that lasts a
	// day is renewed after 18 hours at the latest, so that each refresh belongs to a renewal.
	firstRefreshPause = 70 * time.Second
	longRefreshPause  = 18 * time.Hour
	// doubtPause is the minimum time between two tests that are caused by the hub's responses to other requests.
	doubtPause = 5 * time.Second
)

// pace spaces the attempts at one operation. The first attempt is due at once. The pauses double from first to
// long. Each pause is up to 50 % shorter or longer at random, so that a thousand agents do not retry together.
type pace struct {
	first, long time.Duration
	random      io.Reader

	failed int
	last   time.Time // time of the last attempt
	due    time.Time // time of the next attempt; zero means now
}

// reset makes the next attempt due at once.
func (p *pace) reset() { p.failed, p.due = 0, time.Time{} }

// spare makes the next attempt due at once, but not before pause has passed since the last attempt.
func (p *pace) spare(pause time.Duration) {
	p.reset()
	if !p.last.IsZero() {
		p.due = p.last.Add(pause)
	}
}

// until returns the time from now to the next attempt. Zero or less means now.
func (p *pace) until(now time.Time) time.Duration {
	if p.due.IsZero() {
		return 0
	}
	return p.due.Sub(now)
}

// tried records an attempt made now and schedules the next one, not before the Retry-After of the hub's answer.
func (p *pace) tried(now time.Time, answer error) {
	pause := p.first
	for range p.failed {
		pause = min(2*pause, p.long)
	}
	p.failed = min(p.failed+1, 16)
	p.last, p.due = now, now.Add(max(jitter(pause, p.random), spread(kube.RetryAfter(answer), p.random)))
}

// jitter returns d, randomly up to 50 % shorter or longer. If random fails, it returns d.
func jitter(d time.Duration, random io.Reader) time.Duration {
	return d + d/2*time.Duration(chance(random)-128)/128
}

// spread returns d, randomly up to 50 % longer. It is never shorter, because the server asked for d. If random
// fails, it returns d plus 25 %.
func spread(d time.Duration, random io.Reader) time.Duration {
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
