package agentalone

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// sights records what watches have seen, with the time of the first event.
type sights struct {
	clock func() time.Time

	mu      sync.Mutex // guards the fields below
	at      map[string]time.Time
	changed chan struct{} // closed and replaced at every event
}

func newSights(clock func() time.Time) *sights {
	return &sights{clock: clock, at: map[string]time.Time{}, changed: make(chan struct{})}
}

// see records an event. Only its first time counts.
func (s *sights) see(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.at[what]; known {
		return
	}
	s.at[what] = s.clock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget removes an event, so that its next time counts.
func (s *sights) forget(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, what)
}

// last waits until all these events were seen, and returns the time of the last one.
func (s *sights) last(ctx context.Context, all ...string) (time.Time, error) {
	for {
		missing, last, changed := s.look(all)
		if missing == "" {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for event %s: %w", missing, context.Cause(ctx))
		}
	}
}

func (s *sights) look(all []string) (missing string, last time.Time, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range all {
		at, seen := s.at[what]
		if !seen {
			return what, last, s.changed
		}
		if at.After(last) {
			last = at
		}
	}
	return "", last, s.changed
}

// follow passes the events of a watch to see, and reopens the watch when it ends, until ctx ends. Events that are
// seen again keep their time.
func follow(ctx context.Context, open func(context.Context) (watch.Interface, error), see func(watch.Event)) {
	for ctx.Err() == nil {
		if stream, err := open(ctx); err == nil {
			for event := range stream.ResultChan() {
				see(event)
			}
			stream.Stop()
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}
