package deploy

import (
	"maps"
	"slices"
	"sync"
)

// bells wake operations that wait for an event. Helm keeps their goroutines until the operation has finished.
type bells struct {
	mu        sync.Mutex
	listeners map[string]map[chan struct{}]bool
}

func newBells() *bells { return &bells{listeners: map[string]map[chan struct{}]bool{}} }

// listen subscribes to events. The channel receives once after one or more events; stop ends the subscription.
func (b *bells) listen(names ...string) (heard <-chan struct{}, stop func()) {
	listener := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		if b.listeners[name] == nil {
			b.listeners[name] = map[chan struct{}]bool{}
		}
		b.listeners[name][listener] = true
	}
	return listener, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, name := range names {
			delete(b.listeners[name], listener)
			if len(b.listeners[name]) == 0 {
				delete(b.listeners, name)
			}
		}
	}
}

// ring wakes all listeners of an event.
func (b *bells) ring(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for listener := range b.listeners[name] {
		select {
		case listener <- struct{}{}:
		default: // the listener has not read the last wakeup yet
		}
	}
}

// Names of events: a change of a BundleDeployment, of an object of a set, and of a CRD.
func bundleBell(name string) string { return "bundledeployment/" + name }
func setBell(hash string) string    { return "set/" + hash }

const crdBell = "crds"

// nameSet is a set of names.
type nameSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func newNameSet() *nameSet { return &nameSet{names: map[string]bool{}} }

func (s *nameSet) put(name string, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in {
		s.names[name] = true
		return
	}
	delete(s.names, name)
}

// take removes a name and reports whether it was in the set.
func (s *nameSet) take(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.names[name]
	delete(s.names, name)
	return was
}

func (s *nameSet) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.names))
}
