package config

import (
	"fmt"
	"reflect"
	"sync"
)

// Store holds the running configuration and tells those who asked when it changes. It is safe for
// concurrent use.
type Store struct {
	mu       sync.RWMutex
	current  Config
	loaded   bool
	watchers []func(old, current Config)
}

// NewStore holds initial, which counts as loaded only after the first Set.
func NewStore(initial Config) *Store { return &Store{current: initial} }

// Get is the running configuration.
func (s *Store) Get() Config {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current
}

// Loaded says whether a configuration was ever Set.
func (s *Store) Loaded() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.loaded
}

// OnChange calls f after each Set that changed something, in the order of registration, in the
// goroutine of that Set. f must not block and must not call Set.
func (s *Store) OnChange(f func(old, current Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, f)
}

// Set makes next the running configuration and reports whether it differs from the one before.
func (s *Store) Set(next Config) bool {
	s.mu.Lock()
	old, first := s.current, !s.loaded
	s.current, s.loaded = next, true
	watchers := s.watchers
	s.mu.Unlock()
	if !first && reflect.DeepEqual(old, next) {
		return false
	}
	for _, notify := range watchers {
		notify(old, next)
	}
	return true
}

// Accepts is the version gate: a process that holds a configuration takes only one that was written
// for its own version, so that a rolling upgrade does not reconfigure the old pods. At start any
// version is taken. The error says which of the two is the case.
func (s *Store) Accepts(annotations map[string]string, version string) error {
	written := annotations[VersionAnnotation]
	if !s.Loaded() || written == version {
		return nil
	}
	return fmt.Errorf("the configuration was written for version %q, this is version %q; it is ignored until the upgrade of one of the two", written, version)
}
