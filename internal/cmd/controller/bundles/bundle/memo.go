package bundle

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// memo caches results that are expensive to compute and seldom change. All of it can be recomputed.
type memo struct {
	mu sync.Mutex
	// bundles has the results for the current generation of each Bundle.
	bundles map[types.UID]ofGeneration
	// doubted are the BundleDeployments whose Secret may not hold the values of their hash. For all others the Secret
	// is known to match, because it is written first.
	doubted map[types.UID]bool
}

type ofGeneration struct {
	generation int64
	// manifestHash is empty until it is first needed.
	manifestHash string
	// selection is nil if the Bundle's selectors do not parse.
	selection *targeting.Selection
	// settled has the state of each cluster, by the UID of its Cluster.
	settled map[types.UID]settledTarget
}

// flags is a set of Bundles.
type flags struct {
	mu      sync.Mutex
	flagged map[types.NamespacedName]bool
}

func newFlags() *flags { return &flags{flagged: map[types.NamespacedName]bool{}} }

func (f *flags) set(bundle types.NamespacedName, flagged bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flagged {
		f.flagged[bundle] = true
	} else {
		delete(f.flagged, bundle)
	}
}

func (f *flags) has(bundle types.NamespacedName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flagged[bundle]
}

func newMemo() *memo {
	return &memo{bundles: map[types.UID]ofGeneration{}, doubted: map[types.UID]bool{}}
}

// selection returns which clusters the Bundle selects, or nil if its selectors do not parse.
func (m *memo) selection(bundle *fleet.Bundle) *targeting.Selection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(bundle).selection
}

// manifestHash returns the hash of the Bundle's manifest. It computes the hash without the lock, because that takes
// time for a large Bundle.
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

// of returns the cached results for the Bundle's current generation. The caller must hold the lock.
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

// secretHolds reports whether the Secret of a BundleDeployment is known to hold the values of its hash.
func (m *memo) secretHolds(uid types.UID, _ string) bool { return !m.doubts(uid) }

// doubt marks the Secret of a BundleDeployment to be checked before the next write. trust removes the mark.
func (m *memo) doubt(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doubted[uid] = true
}

func (m *memo) doubts(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doubted[uid]
}

func (m *memo) trust(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.doubted, uid)
}
