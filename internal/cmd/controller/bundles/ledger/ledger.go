package ledger

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Ledger is safe for concurrent use. Create it with New.
type Ledger struct {
	// Writing is the number of BundleDeployments that are being written. These writes take precedence over status
	// updates.
	Writing atomic.Int32

	changed func(bundle types.NamespacedName)

	mu       sync.RWMutex
	outcomes map[types.NamespacedName]selection.Outcome
	// troubles are the problems that other controllers report for single BundleDeployments.
	troubles map[types.NamespacedName]string
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		changed:  func(types.NamespacedName) {},
		outcomes: map[types.NamespacedName]selection.Outcome{}, troubles: map[types.NamespacedName]string{},
	}
}

// OnChange registers f, which is called after a Bundle's outcome, or a problem with one of its BundleDeployments, has
// changed. It must be called before the first write. f must not block.
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

// SetTrouble stores a problem with a BundleDeployment of a Bundle that a controller other than that of Bundles reports, such
// as a missing original of a copy. An empty text removes it.
func (l *Ledger) SetTrouble(deployment, bundle types.NamespacedName, text string) {
	text = cut.Text(text, conditions.MaxMessage)
	l.mu.Lock()
	same := l.troubles[deployment] == text
	if text == "" {
		delete(l.troubles, deployment)
	} else {
		l.troubles[deployment] = text
	}
	l.mu.Unlock()
	if !same {
		l.changed(bundle)
	}
}

// Trouble returns the problem with a BundleDeployment, or an empty string.
func (l *Ledger) Trouble(deployment types.NamespacedName) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.troubles[deployment]
}
