// Package queue works keys off, each at most once at a time and not more often than
// its spacing allows, so that a burst of events costs one pass. The first event of a
// burst is not delayed, unless the queue settles: then it waits a moment for the others.
//
//	an object changed ─► Watch ─► Add ─► at most one pass per key ─► again after an error
//
// The controllers of Bundles have queues of their own beside those of the kinds:
// what they work on is seldom the object that changed, and they look at what
// changed in it before they wake.
package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Delays after errors: the first, and the longest.
const (
	retryMin = 10 * time.Millisecond
	retryMax = time.Minute
)

// Options of New.
type Options struct {
	// Name is for logs and metrics.
	Name string
	// Workers is how many keys are worked on at a time; 0 means 4.
	Workers int
	// Spacing is the least time between the beginnings of two passes over one key; 0
	// means none.
	Spacing time.Duration
	// Settling is how long the first event of a burst waits for the others; 0 means not at all.
	Settling time.Duration
	// Log must not be nil.
	Log *slog.Logger
}

// Handle makes one pass over a key. After an error it is called again, later and
// later while errors go on.
type Handle func(ctx context.Context, key types.NamespacedName) error

// Queue is ready once made; Run works it off.
type Queue struct {
	options Options
	handle  Handle
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu     sync.Mutex // guards what follows
	recent map[types.NamespacedName]bool
	again  map[types.NamespacedName]bool
}

// New makes a queue.
func New(options Options, handle Handle) *Queue {
	if options.Workers == 0 {
		options.Workers = 4
	}
	return &Queue{
		options: options,
		handle:  handle,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryMin, retryMax),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: options.Name},
		),
		recent: map[types.NamespacedName]bool{},
		again:  map[types.NamespacedName]bool{},
	}
}

// Add asks for a pass over key: when the queue has settled, or when the spacing since the last one is
// over. Many calls before that pass ask for one. It never blocks.
func (q *Queue) Add(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.recent[key] {
		q.again[key] = true
		return
	}
	q.queue.AddAfter(key, q.options.Settling)
}

// AddAfter asks for a pass over key in a while, whatever happens until then.
func (q *Queue) AddAfter(key types.NamespacedName, after time.Duration) {
	q.queue.AddAfter(key, after)
}

// Behind says whether keys are due that no worker has begun with.
func (q *Queue) Behind() bool { return q.queue.Len() > 0 }

// Run works until ctx ends; first it waits until all that handlers read is there.
func (q *Queue) Run(ctx context.Context, synced ...cache.InformerSynced) {
	context.AfterFunc(ctx, q.queue.ShutDown)
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	var workers sync.WaitGroup
	for range q.options.Workers {
		workers.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	workers.Wait()
}

func (q *Queue) next(ctx context.Context) bool {
	key, ended := q.queue.Get()
	if ended {
		return false
	}
	defer q.queue.Done(key)
	q.space(key)
	err := q.handle(ctx, key)
	switch {
	case err == nil:
		q.queue.Forget(key)
		return true
	case ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		q.options.Log.Debug("somebody was faster, trying again", "queue", q.options.Name, "key", key.String(), "error", err)
	default:
		q.options.Log.Warn("trying again", "queue", q.options.Name, "key", key.String(), "error", err)
	}
	q.queue.AddRateLimited(key)
	return true
}

// space holds further passes back for a while; what was asked for meanwhile follows then.
func (q *Queue) space(key types.NamespacedName) {
	if q.options.Spacing == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recent[key] = true
	time.AfterFunc(q.options.Spacing, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.recent, key)
		if q.again[key] {
			delete(q.again, key)
			q.queue.Add(key)
		}
	})
}
