package deploy

import "sync"

// bells wake operations that wait for something in their middle: Helm keeps their goroutines until it has happened.
type bells struct {
	mu        sync.Mutex
	listeners map[string]map[chan struct{}]bool
}

func newBells() *bells { return &bells{listeners: map[string]map[chan struct{}]bool{}} }

// listen returns a channel that says that one of the bells has rung since it was last read, and what ends that.
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

// ring wakes whoever listens to a bell.
func (b *bells) ring(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for listener := range b.listeners[name] {
		select {
		case listener <- struct{}{}:
		default: // it has not heard the last time yet
		}
	}
}

// The bells: a BundleDeployment is wanted otherwise, an object of a set has changed, or a CRD has.
func bundleBell(name string) string { return "bundledeployment/" + name }
func setBell(hash string) string    { return "set/" + hash }

const crdBell = "crds"
