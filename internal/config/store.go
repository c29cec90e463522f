package config

import (
	"fmt"
	"reflect"
	"sync"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Store holds the current configuration and notifies subscribers of changes. It is safe for concurrent use.
type Store struct {
	mu       sync.RWMutex
	current  Config
	loaded   bool
	watchers []func(old, current Config)
}

// NewStore returns a Store with an initial configuration. Loaded returns false until the first Set.
func NewStore(initial Config) *Store { return &Store{current: initial} }

// Get returns the current configuration.
func (s *Store) Get() Config {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current
}

// Loaded reports whether Set was ever called.
func (s *Store) Loaded() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.loaded
}

// OnChange registers f. Each Set that changes the configuration calls the registered functions in order, in its
// own goroutine. f must not block and must not call Set.
func (s *Store) OnChange(f func(old, current Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, f)
}

// Set replaces the current configuration and reports whether it has changed.
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

// Accepts checks the version in the annotations. A process that has a configuration accepts only one written for
// its own version, so that a rolling upgrade does not reconfigure the old pods. At startup it accepts any
// version. The error contains both versions.
func (s *Store) Accepts(annotations map[string]string, version string) error {
	written := annotations[fleet.AnnotationVersion]
	if !s.Loaded() || written == version {
		return nil
	}
	return fmt.Errorf("the configuration is for version %q and this controller has version %q: it is ignored until both are the same; if they stay different, upgrade chart fleet and its image together", written, version)
}
