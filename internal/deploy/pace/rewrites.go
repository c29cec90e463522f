package pace

import "time"

const (
	// freeComparisons is the number of comparisons of an object without a pause. After that, the pause starts at
	// firstPace and doubles up to longestPace, until the object has not changed for quietTime.
	freeComparisons = 5
	firstPace       = 500 * time.Millisecond
	longestPace     = 8 * time.Second
	quietTime       = time.Minute
)

// Rewrites counts the comparisons of an object that others have changed.
type Rewrites struct {
	count int
	last  time.Time
}

// Compared counts one more comparison.
func (r Rewrites) Compared(now time.Time) Rewrites {
	if now.Sub(r.last) > quietTime {
		r.count = 0
	}
	return Rewrites{count: r.count + 1, last: now}
}

// Wait returns how long to wait before the next comparison.
func (r Rewrites) Wait(now time.Time) time.Duration {
	if r.count < freeComparisons {
		return 0
	}
	pace := min(firstPace<<min(r.count-freeComparisons, 8), longestPace)
	return max(r.last.Add(pace).Sub(now), 0)
}
