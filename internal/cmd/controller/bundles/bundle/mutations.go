package bundle

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// unseen is how long a created BundleDeployment may be missing from the cache before it is considered deleted.
const unseen = time.Minute

// uncertainLife is how long a write with an unknown result may still be applied: longer than an API server works on a
// request.
const uncertainLife = 2 * time.Minute

// mutations holds the BundleDeployments that the API server returned to this process until the cache has caught up.
// The rollout counts with the newest state: a BundleDeployment that was just promoted is unavailable, even if the
// watch has not reported the change yet.
//
//	answer to a write, consistent list ─► note ─┐
//	cache ──────────────────────────────────────┴─► newest ─► rollout
//
// The entries are lost when the process ends. The next process lists the BundleDeployments of a Bundle once before it
// relies on its entries. An unknown result counts as written until a later state is seen, or until the API server can no
// longer apply the write; then the BundleDeployments are listed again.
type mutations struct {
	clock func() time.Time

	mu      sync.Mutex
	bundles map[types.NamespacedName]*mutationsOfBundle
}

// mutationsOfBundle has at most one entry per cluster, by namespace.
type mutationsOfBundle struct {
	// listed means that this process has listed all BundleDeployments of the Bundle. The list includes writes of
	// earlier processes, and those with an unknown result.
	listed  bool
	written reconcile.MutationCache[string, *fleet.BundleDeployment]
	// uncertain are the writes with an unknown result.
	uncertain map[string]uncertainWrite
}

// uncertainWrite is a write with an unknown result: the state before it, and when it failed.
type uncertainWrite struct {
	base *fleet.BundleDeployment
	at   time.Time
}

func newMutations(clock func() time.Time) *mutations {
	return &mutations{clock: clock, bundles: map[types.NamespacedName]*mutationsOfBundle{}}
}

// of returns the entries of a Bundle and creates them if necessary. The caller must hold the lock.
func (m *mutations) of(bundle types.NamespacedName) *mutationsOfBundle {
	known := m.bundles[bundle]
	if known == nil {
		known = &mutationsOfBundle{}
		known.written.Life = math.MaxInt64 // a rollout must not count with an older state, however long the cache lags
		m.bundles[bundle] = known
	}
	return known
}

// note stores objects that the API server returned.
func (m *mutations) note(bundle types.NamespacedName, written ...*fleet.BundleDeployment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(bundle)
	for _, bd := range written {
		known.written.Note(bd.Namespace, bd, nil, m.clock())
		known.endUncertainty(bd)
	}
}

// noteUncertain records that a write, based on the state base, failed in a way that leaves its result unknown.
// Errors that prove a refusal are ignored.
func (m *mutations) noteUncertain(bundle types.NamespacedName, base *fleet.BundleDeployment, err error) {
	if isRefusal(err) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(bundle)
	known.written.Note(base.Namespace, base, base, m.clock())
	if known.uncertain == nil {
		known.uncertain = map[string]uncertainWrite{}
	}
	known.uncertain[base.Namespace] = uncertainWrite{base, m.clock()}
}

// uncertainFor returns how long the result of a Bundle's writes may stay unknown. It returns zero if all are known.
func (m *mutations) uncertainFor(bundle types.NamespacedName) (longest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.bundles[bundle]; known != nil {
		for _, write := range known.uncertain {
			longest = max(longest, write.at.Add(uncertainLife).Sub(m.clock()))
		}
	}
	return longest
}

// isRefusal reports whether an error proves that nothing was written. A conflict proves nothing: it may answer a
// retry of a request that was applied the first time.
func isRefusal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// newest returns the BundleDeployments of a Bundle as last seen, from the cache or from an answer, ordered by
// namespace. uncertain are the namespaces in which the result of a write is unknown. newest drops the entries that the
// cache has caught up with.
func (m *mutations) newest(bundle types.NamespacedName, cached []*fleet.BundleDeployment) (newest []*fleet.BundleDeployment, uncertain map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(bundle)
	known.expire(m.clock())
	uncertain = map[string]bool{}
	here := map[string]bool{}
	for _, bd := range cached {
		here[bd.Namespace] = true
		newest = append(newest, known.written.Newest(bd.Namespace, bd, m.clock()))
		known.caughtUp(bd)
		if _, is := known.uncertain[bd.Namespace]; is {
			uncertain[bd.Namespace] = true
		}
	}
	for namespace, written := range known.written.All() {
		switch bd := known.written.Newest(namespace, nil, m.clock()); {
		case here[namespace]:
		case bd == nil || m.clock().Sub(written.At) > unseen: // deleted, or never reached the cache
			known.forget(written.Object)
		default:
			newest = append(newest, bd)
		}
	}
	slices.SortFunc(newest, func(a, b *fleet.BundleDeployment) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return newest, uncertain
}

// caughtUp drops the entries that the cache has caught up with.
func (of *mutationsOfBundle) caughtUp(cached *fleet.BundleDeployment) {
	of.written.CaughtUp(cached.Namespace, cached)
	of.endUncertainty(cached)
}

// endUncertainty ends the uncertainty about a write when a later state is seen.
func (of *mutationsOfBundle) endUncertainty(seen *fleet.BundleDeployment) {
	if write, is := of.uncertain[seen.Namespace]; is && reconcile.Newer(seen, write.base) {
		delete(of.uncertain, seen.Namespace)
	}
}

// expire ends the uncertainty about writes that the API server can no longer apply. The cache may be older than their
// results, so that the BundleDeployments are listed again.
func (of *mutationsOfBundle) expire(now time.Time) {
	for namespace, write := range of.uncertain {
		if now.Sub(write.at) >= uncertainLife {
			delete(of.uncertain, namespace)
			of.listed = false
		}
	}
}

func (of *mutationsOfBundle) forget(bd *fleet.BundleDeployment) {
	of.written.Forget(bd.Namespace, bd)
	if write, is := of.uncertain[bd.Namespace]; is && write.base.UID == bd.UID {
		delete(of.uncertain, bd.Namespace)
	}
}

// gone drops the entries of a BundleDeployment that was deleted.
func (m *mutations) gone(bundle types.NamespacedName, bd *fleet.BundleDeployment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.bundles[bundle]; known != nil {
		known.forget(bd)
	}
}

// wrote reports whether this process has written this version of a BundleDeployment, or a later one. It may not know yet.
func (m *mutations) wrote(bundle types.NamespacedName, bd *fleet.BundleDeployment) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.bundles[bundle]
	if known == nil {
		return false
	}
	written := known.written.Newest(bd.Namespace, nil, m.clock())
	return written != nil && !reconcile.Newer(bd, written)
}

// cached drops the entries that the cache has caught up with, to save memory.
func (m *mutations) cached(bundle types.NamespacedName, bd *fleet.BundleDeployment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.bundles[bundle]; known != nil {
		known.caughtUp(bd)
	}
}

// forget drops the entries of a deleted Bundle.
func (m *mutations) forget(bundle types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bundles, bundle)
}

// isListed reports whether this process has listed all BundleDeployments of the Bundle.
func (m *mutations) isListed(bundle types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(bundle).listed
}

// noteAll stores the result of a consistent list.
func (m *mutations) noteAll(bundle types.NamespacedName, all []*fleet.BundleDeployment) {
	m.note(bundle, all...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(bundle).listed = true
}
