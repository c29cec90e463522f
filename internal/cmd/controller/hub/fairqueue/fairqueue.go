// Package fairqueue orders work so that no workspace occupies all workers.
//
//	Push ─► the workspace has its share ─► waits for Done of the workspace ─┐
//	   └──► it has not ─────────────────────────────────────────────────────┴─► Pop
package fairqueue

import (
	"sync"
)

// Queue holds items in the order in which they were pushed, and at most a share of each workspace can be popped or in work.
// It implements workqueue.Queue; its methods may be called concurrently.
type Queue[T comparable] struct {
	share       int
	workspaceOf func(T) string

	mu      sync.Mutex // guards the fields below
	size    int
	ready   []entry[T]
	working map[T]*tenant[T]
	tenants map[string]*tenant[T]
}

type entry[T comparable] struct {
	item   T
	tenant *tenant[T]
}

// tenant is a workspace that has items.
type tenant[T comparable] struct {
	workspace string
	// taken counts the items that can be popped or are in work. waiting are the others, in order.
	taken   int
	waiting []T
}

// New returns an empty queue. A share of 0 means no limit. workspaceOf must not use the queue.
func New[T comparable](share int, workspaceOf func(T) string) *Queue[T] {
	return &Queue[T]{share: share, workspaceOf: workspaceOf, working: map[T]*tenant[T]{}, tenants: map[string]*tenant[T]{}}
}

// Touch implements workqueue.Queue. An item that is added again keeps its place.
func (q *Queue[T]) Touch(T) {}

// Push adds an item, which must not be in the queue or in work.
func (q *Queue[T]) Push(item T) {
	workspace := q.workspaceOf(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size++
	t := q.tenants[workspace]
	if t == nil {
		t = &tenant[T]{workspace: workspace}
		q.tenants[workspace] = t
	}
	if q.share > 0 && t.taken >= q.share {
		t.waiting = append(t.waiting, item)
		return
	}
	t.taken++
	q.ready = append(q.ready, entry[T]{item, t})
}

// Len returns the number of items that can be popped.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ready)
}

// Size returns the number of items that were not popped, including those that wait for their workspace.
func (q *Queue[T]) Size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// Pop removes the first item that can be popped. Len must not be 0. The item is in work until Done.
func (q *Queue[T]) Pop() T {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.ready[0]
	q.ready[0], q.ready = entry[T]{}, q.ready[1:]
	q.size--
	q.working[first.item] = first.tenant
	return first.item
}

// Done ends the work on an item. The next one of its workspace can be popped. Done wakes no worker: the caller is one, and
// pops next.
func (q *Queue[T]) Done(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.working[item]
	delete(q.working, item)
	switch {
	case len(t.waiting) > 0:
		q.ready = append(q.ready, entry[T]{t.waiting[0], t})
		t.waiting = t.waiting[1:]
	case t.taken == 1:
		delete(q.tenants, t.workspace)
	default:
		t.taken--
	}
}
