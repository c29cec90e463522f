package metrics

import (
	"sync"
	"time"
)

// Stages measures how long things stay in each of their stages. It keeps only things that have not finished. It
// is safe for concurrent use.
type Stages struct {
	clock   func() time.Time
	observe func(stage string, took time.Duration)

	mu  sync.Mutex
	way map[string]leg
}

// leg is the current stage of a thing.
type leg struct {
	stage          string
	began, entered time.Time
}

// NewStages returns Stages that report each duration to observe.
func NewStages(clock func() time.Time, observe func(stage string, took time.Duration)) *Stages {
	return &Stages{clock: clock, observe: observe, way: map[string]leg{}}
}

// Enter records that a thing is in a stage. It has no effect if the thing is in that stage already. It returns
// the time since the thing's first stage began.
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

// Arrive ends a thing's last stage. It returns the time since its first stage began, or zero and false if the
// thing is unknown.
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

// Drop forgets a thing that will not finish.
func (s *Stages) Drop(thing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.way, thing)
}
