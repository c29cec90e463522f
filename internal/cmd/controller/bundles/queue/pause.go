package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A pass reads all clusters of a Bundle, also if only one of them has changed. pausePerCluster is ten times what a pass over an
// unchanged cluster takes, so that such passes occupy a worker for a tenth of the time at most.
const (
	pausePerCluster = 160 * time.Microsecond
	minPause        = 20 * time.Millisecond // a shorter pause saves nothing
	maxPause        = 5 * time.Second
)

// Pause delays the keys that AddPaced adds from now on. Call it when a pass over so many clusters begins. It has no effect for up
// to 125 clusters.
func (q *Queue) Pause(key types.NamespacedName, clusters int) {
	pause := min(time.Duration(clusters)*pausePerCluster, maxPause)
	if pause <= minPause {
		return
	}
	until := time.Now().Add(pause) //nolint:forbidigo // the work queue has this clock, too
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused[key] = until
	time.AfterFunc(pause, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.paused[key].Equal(until) {
			delete(q.paused, key)
		}
	})
}

// AddPaced enqueues a key after a delay, and not before the pause that the last pass has begun is over. The first event
// after a quiet period is not paused.
func (q *Queue) AddPaced(key types.NamespacedName, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.AddAfter(key, max(after, time.Until(q.paused[key]))) //nolint:forbidigo // as above
}
