package pace

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	firstRetry = 500 * time.Millisecond
	// LongestRetry is the longest pause before a failed reconcile or deployment is tried again.
	LongestRetry = 2 * time.Minute
)

// backoff is client-go's rate limiter, which doubles the pause of an item with each failure, from firstRetry to
// LongestRetry. It adds up to half of the pause at random.
type backoff struct {
	workqueue.TypedRateLimiter[string]
	random func() float64
}

// NewBackoff returns a rate limiter for a queue.
func NewBackoff(random func() float64) workqueue.TypedRateLimiter[string] {
	return backoff{workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, LongestRetry), random}
}

// When counts a failure and returns the pause before the next try.
func (b backoff) When(item string) time.Duration {
	pause := b.TypedRateLimiter.When(item)
	return pause + time.Duration(b.random()*float64(pause)/2)
}
