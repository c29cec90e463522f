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

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/fairqueue"
)

// Minimum and maximum backoff after errors.
const (
	retryMin = 10 * time.Millisecond
	retryMax = time.Minute
)

// Options configure a Queue.
type Options struct {
	// Name is used in logs and metrics.
	Name string
	// Workers is the number of keys that are handled concurrently; 0 means 4.
	Workers int
	// PerWorkspace limits how many of them may be of one workspace, so that no tenant occupies all workers; 0 means no limit.
	PerWorkspace int
	// Workspace returns the workspace of a key; nil means its namespace.
	Workspace func(key types.NamespacedName) string
	// Spacing is the minimum time between the starts of two passes for one key; 0 means no minimum.
	Spacing time.Duration
	// Settling is how long the first event of a burst waits for the others; 0 means that it does not wait.
	Settling time.Duration
	// First reports whether a key that was added before Run is handled before those that were not changed. Nil keeps
	// the order.
	First func(key types.NamespacedName) bool
	// Log must not be nil.
	Log *slog.Logger
}

// Handle makes one pass over a key. After an error it is called again with exponential backoff.
type Handle func(ctx context.Context, key types.NamespacedName) error

// Queue accepts keys as soon as it is created. Run processes them.
type Queue struct {
	options Options
	handle  Handle
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	order   *fairqueue.Queue[types.NamespacedName]

	mu     sync.Mutex // guards the fields below
	recent map[types.NamespacedName]bool
	again  map[types.NamespacedName]bool
	paused map[types.NamespacedName]time.Time // when their pauses end
}

// New returns a queue.
func New(options Options, handle Handle) *Queue {
	if options.Workers == 0 {
		options.Workers = 4
	}
	if options.Workspace == nil {
		options.Workspace = func(key types.NamespacedName) string { return key.Namespace }
	}
	order := fairqueue.New(options.PerWorkspace, options.Workspace)
	return &Queue{
		options: options,
		handle:  handle,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryMin, retryMax),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
				workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Name: options.Name, Queue: workqueue.NewTypedWithConfig(
					workqueue.TypedQueueConfig[types.NamespacedName]{Name: options.Name, Queue: order})})},
		),
		order:  order,
		recent: map[types.NamespacedName]bool{},
		again:  map[types.NamespacedName]bool{},
		paused: map[types.NamespacedName]time.Time{},
	}
}

// Add enqueues a key. The pass starts when the queue has settled, or when the spacing since the last pass is over.
// Several calls before that pass cause one pass. Add never blocks.
func (q *Queue) Add(key types.NamespacedName) { q.add(key, q.options.Settling) }

// AddNow enqueues a key like Add, but the pass does not wait until the queue has settled.
func (q *Queue) AddNow(key types.NamespacedName) { q.add(key, 0) }

func (q *Queue) add(key types.NamespacedName, settling time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.recent[key] {
		q.again[key] = true
		return
	}
	q.queue.AddAfter(key, settling)
}

// AddAfter enqueues a key after a delay. It does not shorten or replace other delays.
func (q *Queue) AddAfter(key types.NamespacedName, after time.Duration) {
	q.queue.AddAfter(key, after)
}

// Behind reports whether keys are due that no worker has started.
func (q *Queue) Behind() bool { return q.order.Size() > 0 }

// Run processes keys until ctx ends. First it waits until the caches that handlers read are synced.
func (q *Queue) Run(ctx context.Context, synced ...cache.InformerSynced) {
	context.AfterFunc(ctx, q.queue.ShutDown)
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	q.sort()
	var workers sync.WaitGroup
	for range q.options.Workers {
		workers.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	workers.Wait()
}

// sort puts the keys that come first before the others. A process that begins to work has all keys in its queue, and most
// of them need nothing. Only now, with synced caches, all workspaces are known.
func (q *Queue) sort() {
	var first, others []types.NamespacedName
	for q.Behind() {
		key, ended := q.queue.Get()
		if ended {
			return
		}
		q.done(key)
		if q.options.First != nil && q.options.First(key) {
			first = append(first, key)
		} else {
			others = append(others, key)
		}
	}
	for _, key := range append(first, others...) {
		q.queue.Add(key)
	}
}

// done ends the work on a key, and then lets the next one of its workspace begin.
func (q *Queue) done(key types.NamespacedName) {
	q.order.Done(key)
	q.queue.Done(key)
}

func (q *Queue) next(ctx context.Context) bool {
	key, ended := q.queue.Get()
	if ended {
		return false
	}
	defer q.done(key)
	q.space(key)
	err := q.handle(ctx, key)
	switch {
	case err == nil:
		q.queue.Forget(key)
		return true
	case ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		q.options.Log.Debug("object was changed by another client, trying again", "queue", q.options.Name, "key", key.String(), "error", err)
	default:
		q.options.Log.Warn("reconciling failed, trying again", "queue", q.options.Name, "key", key.String(), "error", err)
	}
	q.queue.AddRateLimited(key)
	return true
}

// space delays further passes for a key. Keys that were added in the meantime are enqueued afterwards.
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
