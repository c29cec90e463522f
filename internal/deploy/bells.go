package deploy

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
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

// newsOf returns the wakeups for a deployment of a BundleDeployment: changes of its objects, changes of CRDs, and
// changes of the BundleDeployment. The watches are the ones that the release needs afterwards as well.
func (d *deployer) newsOf(name, hash string) *news {
	return &news{
		follow: func(resources map[schema.GroupVersionResource]bool) { d.watches.follow(name, resources) },
		listen: func() (<-chan struct{}, func()) {
			return d.bells.listen(bundleBell(name), setBell(hash), crdBell)
		},
	}
}
