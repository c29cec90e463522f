package ledger

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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

// Troubles are problems that controllers other than that of Bundles report for single BundleDeployments, such as a
// missing original of a copy. Troubles is safe for concurrent use. Create it with NewTroubles.
type Troubles struct {
	changed func(bundle types.NamespacedName)

	mu    sync.RWMutex
	texts map[types.NamespacedName]string
}

// NewTroubles returns empty Troubles. changed is called after a problem of a Bundle has changed; it must not block.
func NewTroubles(changed func(bundle types.NamespacedName)) *Troubles {
	return &Troubles{changed: changed, texts: map[types.NamespacedName]string{}}
}

// Set stores a problem with a BundleDeployment of a Bundle. An empty text removes it.
func (t *Troubles) Set(deployment, bundle types.NamespacedName, text string) {
	text = cut.Text(text, fleet.MaxMessage)
	t.mu.Lock()
	same := t.texts[deployment] == text
	if text == "" {
		delete(t.texts, deployment)
	} else {
		t.texts[deployment] = text
	}
	t.mu.Unlock()
	if !same {
		t.changed(bundle)
	}
}

// Of returns the problem with a BundleDeployment, or an empty string.
func (t *Troubles) Of(deployment types.NamespacedName) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.texts[deployment]
}
