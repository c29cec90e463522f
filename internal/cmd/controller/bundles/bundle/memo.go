package bundle

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/content"
	"github.com/fleet-hub/fleet/internal/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// memo keeps what is costly to find out and does not change with every event. All
// of it can be lost.
type memo struct {
	mu sync.Mutex
	// bundles has what follows from a generation of a Bundle.
	bundles map[types.UID]ofGeneration
	// secrets has, for BundleDeployments, the hash of the values that their Secret is
	// known to hold.
	secrets map[types.UID]string
}

type ofGeneration struct {
	generation int64
	// manifestHash is empty until somebody asks for it.
	manifestHash string
	// selection is nil if the Bundle's selectors do not parse.
	selection *targeting.Selection
}

func newMemo() *memo {
	return &memo{bundles: map[types.UID]ofGeneration{}, secrets: map[types.UID]string{}}
}

// selection says which clusters the Bundle goes to; nil if its selectors do not parse.
func (m *memo) selection(bundle *fleet.Bundle) *targeting.Selection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(bundle).selection
}

// manifestHash is the hash of the Bundle's manifest. Working it out takes a moment
// for a large Bundle: nobody else waits for that.
func (m *memo) manifestHash(bundle *fleet.Bundle) string {
	m.mu.Lock()
	hash := m.of(bundle).manifestHash
	m.mu.Unlock()
	if hash != "" {
		return hash
	}
	hash = content.Manifest{Resources: bundle.Spec.Resources}.SHA256()
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(bundle)
	known.manifestHash = hash
	m.bundles[bundle.UID] = known
	return hash
}

// of is what is known of a generation of a Bundle. To be called with the lock.
func (m *memo) of(bundle *fleet.Bundle) ofGeneration {
	known, ok := m.bundles[bundle.UID]
	if ok && known.generation == bundle.Generation {
		return known
	}
	known = ofGeneration{generation: bundle.Generation}
	if selection, err := targeting.NewSelection(bundle); err == nil {
		known.selection = selection
	}
	m.bundles[bundle.UID] = known
	return known
}

func (m *memo) forgetBundle(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bundles, uid)
}

// secretHolds says whether the Secret of a BundleDeployment is known to hold the
// values of this hash.
func (m *memo) secretHolds(uid types.UID, hash string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.secrets[uid]
	return ok && known == hash
}

func (m *memo) noteSecret(uid types.UID, hash string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.secrets[uid] = hash
}

func (m *memo) forgetSecret(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.secrets, uid)
}
