package outcomes

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Store is safe for concurrent use. Create it with New.
type Store struct {
	// Writing is the number of BundleDeployments that are being written. These writes take precedence over status
	// updates.
	Writing atomic.Int32

	changed func(bundle types.NamespacedName)

	mu       sync.RWMutex
	outcomes map[types.NamespacedName]selection.Outcome
	// troubles are the problems that other controllers report for single BundleDeployments.
	troubles map[types.NamespacedName]string
}

// New returns an empty Store.
func New() *Store {
	return &Store{
		changed:  func(types.NamespacedName) {},
		outcomes: map[types.NamespacedName]selection.Outcome{}, troubles: map[types.NamespacedName]string{},
	}
}

// OnChange registers f, which is called after a Bundle's outcome, or a problem with one of its BundleDeployments, has
// changed. It must be called before the first write. f must not block.
func (s *Store) OnChange(f func(bundle types.NamespacedName)) { s.changed = f }

// Set stores the outcome of a Bundle. The caller must not change the outcome afterwards.
func (s *Store) Set(bundle types.NamespacedName, outcome selection.Outcome) {
	s.mu.Lock()
	before, known := s.outcomes[bundle]
	s.outcomes[bundle] = outcome
	s.mu.Unlock()
	if !known || !reflect.DeepEqual(before, outcome) {
		s.changed(bundle)
	}
}

// Get returns the last outcome of a Bundle. known is false if no outcome is stored.
func (s *Store) Get(bundle types.NamespacedName) (outcome selection.Outcome, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	outcome, known = s.outcomes[bundle]
	return outcome, known
}

// Forget drops a deleted Bundle.
func (s *Store) Forget(bundle types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.outcomes, bundle)
}

// SetTrouble stores a problem with a BundleDeployment of a Bundle that a controller other than that of Bundles reports, such
// as a missing original of a copy. An empty text removes it.
func (s *Store) SetTrouble(deployment, bundle types.NamespacedName, text string) {
	text = cut.Text(text, conditions.MaxMessage)
	s.mu.Lock()
	same := s.troubles[deployment] == text
	if text == "" {
		delete(s.troubles, deployment)
	} else {
		s.troubles[deployment] = text
	}
	s.mu.Unlock()
	if !same {
		s.changed(bundle)
	}
}

// Trouble returns the problem with a BundleDeployment, or an empty string.
func (s *Store) Trouble(deployment types.NamespacedName) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.troubles[deployment]
}
