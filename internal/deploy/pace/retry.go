package pace

import "time"

// Retry is the pause before something that has failed is tried again. The pause doubles with each failure in a row.
type Retry struct {
	failures int
	next     time.Time
}

// Failed counts a failure and returns the pause, at most longest, plus up to half of it at random. chance is in [0,1).
func (r *Retry) Failed(now time.Time, longest time.Duration, chance float64) time.Duration {
	pause := min(firstRetry<<min(r.failures, 16), longest)
	r.failures++
	return r.Delay(now, pause+time.Duration(chance*float64(pause)/2))
}

// Delay sets the pause without counting a failure, and returns it.
func (r *Retry) Delay(now time.Time, pause time.Duration) time.Duration {
	r.next = now.Add(pause)
	return pause
}

// Wait returns how long to wait before the next try.
func (r *Retry) Wait(now time.Time) time.Duration { return max(r.next.Sub(now), 0) }

// Failures returns the number of failures in a row.
func (r *Retry) Failures() int { return r.failures }
