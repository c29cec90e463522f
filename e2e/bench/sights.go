package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// sights are what was seen by watches, and when for the first time.
type sights struct {
	clock func() time.Time

	mu      sync.Mutex // guards what follows
	at      map[string]time.Time
	changed chan struct{} // closed and made anew with everything seen
}

func newSights(clock func() time.Time) *sights {
	return &sights{clock: clock, at: map[string]time.Time{}, changed: make(chan struct{})}
}

// see notes that something was seen; the first time counts.
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

// forget makes the next time the first.
func (s *sights) forget(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, what)
}

// last waits until all of it was seen, and returns when the last of it was.
func (s *sights) last(ctx context.Context, all ...string) (time.Time, error) {
	for {
		missing, last, changed := s.look(all)
		if missing == "" {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting to see %s: %w", missing, context.Cause(ctx))
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

// follow shows what a watch tells to see, and opens it again when it ends, until ctx does: what was seen already keeps
// its time.
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
