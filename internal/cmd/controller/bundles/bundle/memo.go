package bundle

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// memo keeps what is costly to find out and does not change with every event. All
// of it can be lost.
type memo struct {
	mu sync.Mutex
	// bundles has what follows from a generation of a Bundle.
	bundles map[types.UID]ofGeneration
	// doubted are BundleDeployments whose Secret may hold other values than they say. Of all others it holds those:
	// it is written first.
	doubted map[types.UID]bool
}

type ofGeneration struct {
	generation int64
	// manifestHash is empty until somebody asks for it.
	manifestHash string
	// selection is nil if the Bundle's selectors do not parse.
	selection *targeting.Selection
	// settled is what is known of each cluster, by the UID of its Cluster.
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

// secretHolds says whether the Secret of a BundleDeployment holds the values of the hash that the BundleDeployment has.
func (m *memo) secretHolds(uid types.UID, _ string) bool { return !m.doubts(uid) }

// doubt has the Secret of a BundleDeployment looked at before the next write; trust ends that.
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
