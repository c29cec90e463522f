// Package ledger stores the targeting outcome of each Bundle. The controller of Bundles writes it, and the controller
// of statuses reads it. Targeting is expensive and runs when a Bundle or a Cluster changes; statuses change much more
// often.
//
//	bundle ─► Set ─► status
//
// The ledger is lost with the process, and complete again after one pass over all Bundles.
package ledger

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/selection"
)

// Ledger is safe for concurrent use. Create it with New.
type Ledger struct {
	// Troubles are the problems that other controllers report for single BundleDeployments.
	Troubles *Troubles
	// Writing is the number of BundleDeployments that are being written. These writes take precedence over status
	// updates.
	Writing atomic.Int32

	changed func(bundle types.NamespacedName)

	mu       sync.RWMutex
	outcomes map[types.NamespacedName]selection.Outcome
}

// New returns an empty ledger.
func New() *Ledger {
	l := &Ledger{changed: func(types.NamespacedName) {}, outcomes: map[types.NamespacedName]selection.Outcome{}}
	l.Troubles = NewTroubles(func(bundle types.NamespacedName) { l.changed(bundle) })
	return l
}

// OnChange registers f, which is called after a Bundle's outcome has changed. It must be called before the first
// write. f must not block.
func (l *Ledger) OnChange(f func(bundle types.NamespacedName)) { l.changed = f }

// Set stores the outcome of a Bundle. The caller must not change the outcome afterwards.
func (l *Ledger) Set(bundle types.NamespacedName, outcome selection.Outcome) {
	l.mu.Lock()
	before, known := l.outcomes[bundle]
	l.outcomes[bundle] = outcome
	l.mu.Unlock()
	if !known || !reflect.DeepEqual(before, outcome) {
		l.changed(bundle)
	}
}

// Get returns the last outcome of a Bundle. known is false if no outcome is stored.
func (l *Ledger) Get(bundle types.NamespacedName) (outcome selection.Outcome, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	outcome, known = l.outcomes[bundle]
	return outcome, known
}

// Forget drops a deleted Bundle.
func (l *Ledger) Forget(bundle types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.outcomes, bundle)
}
