package pace

import (
	"sync"
	"time"
)

const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// backoff doubles the pause of an item with each failure, from firstRetry to lastRetry, and adds up to half of it
// at random. It implements workqueue.TypedRateLimiter.
type backoff struct {
	random func() float64

	mu       sync.Mutex
	failures map[string]int
}

func NewBackoff(random func() float64) *backoff {
	return &backoff{random: random, failures: map[string]int{}}
}

// When counts a failure and returns the pause before the next try.
func (b *backoff) When(item string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	pause := firstRetry
	for i := 0; i < b.failures[item] && pause < lastRetry; i++ {
		pause *= 2
	}
	b.failures[item]++
	pause = min(pause, lastRetry)
	return pause + time.Duration(b.random()*float64(pause)/2)
}

// Forget resets the count of failures.
func (b *backoff) Forget(item string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failures, item)
}

// NumRequeues returns the count of failures.
func (b *backoff) NumRequeues(item string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures[item]
}
