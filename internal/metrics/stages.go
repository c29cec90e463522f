package metrics

import (
	"sync"
	"time"
)

// Stages measure how long things stay in each of their stages. They remember the things that are on their way, and
// forget them at their end. Safe for concurrent use.
type Stages struct {
	clock   func() time.Time
	observe func(stage string, took time.Duration)

	mu  sync.Mutex
	way map[string]leg
}

// leg is where a thing is on its way.
type leg struct {
	stage          string
	began, entered time.Time
}

// NewStages makes stages whose durations are told to observe.
func NewStages(clock func() time.Time, observe func(stage string, took time.Duration)) *Stages {
	return &Stages{clock: clock, observe: observe, way: map[string]leg{}}
}

// Enter says that a thing is in a stage now. Being in it already changes nothing. It returns how long the thing has
// been on its way.
func (s *Stages) Enter(thing, stage string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	at, known := s.way[thing]
	if !known {
		at = leg{stage: stage, began: now, entered: now}
	}
	if at.stage != stage {
		s.observe(at.stage, now.Sub(at.entered))
		at.stage, at.entered = stage, now
	}
	s.way[thing] = at
	return now.Sub(at.began)
}

// Arrive ends a thing's last stage. It returns how long the thing was on its way; zero, and false, if it was not.
func (s *Stages) Arrive(thing string) (took time.Duration, was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.way[thing]
	if !known {
		return 0, false
	}
	delete(s.way, thing)
	now := s.clock()
	s.observe(at.stage, now.Sub(at.entered))
	return now.Sub(at.began), true
}

// Drop forgets a thing that will not arrive.
func (s *Stages) Drop(thing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.way, thing)
}
