package wakeups

import (
	"maps"
	"slices"
	"sync"
)

// Events wake operations that wait for an event. Helm keeps their goroutines until the operation has finished.
type Events struct {
	mu        sync.Mutex
	Listeners map[string]map[chan struct{}]bool
}

func NewEvents() *Events { return &Events{Listeners: map[string]map[chan struct{}]bool{}} }

// Listen subscribes to events. The channel receives once after one or more events; stop ends the subscription.
func (b *Events) Listen(names ...string) (heard <-chan struct{}, stop func()) {
	listener := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		if b.Listeners[name] == nil {
			b.Listeners[name] = map[chan struct{}]bool{}
		}
		b.Listeners[name][listener] = true
	}
	return listener, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, name := range names {
			delete(b.Listeners[name], listener)
			if len(b.Listeners[name]) == 0 {
				delete(b.Listeners, name)
			}
		}
	}
}

// Ring wakes all listeners of an event.
func (b *Events) Ring(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for listener := range b.Listeners[name] {
		select {
		case listener <- struct{}{}:
		default: // the listener has not read the last wakeup yet
		}
	}
}

// Names of events: a change of a BundleDeployment, of an object of a set, and of a CRD.
func BundleBell(name string) string { return "bundledeployment/" + name }
func SetBell(hash string) string    { return "set/" + hash }

const CRDBell = "crds"

// NameSet is a set of names.
type NameSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func NewNameSet() *NameSet { return &NameSet{names: map[string]bool{}} }

func (s *NameSet) Put(name string, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in {
		s.names[name] = true
		return
	}
	delete(s.names, name)
}

// Take removes a name and reports whether it was in the set.
func (s *NameSet) Take(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.names[name]
	delete(s.names, name)
	return was
}

func (s *NameSet) List() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.names))
}
