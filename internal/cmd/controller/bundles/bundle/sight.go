package bundle

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// unseen is how long a created BundleDeployment may be missing from the cache before it is considered deleted.
const unseen = time.Minute

// sights is a mutation cache. It keeps the BundleDeployments that the API server returned to this process until the
// informer cache has caught up. The rollout counts with the newest state: a BundleDeployment that was just promoted is
// unavailable, even if the watch has not reported the change yet.
//
//	answer to a write, consistent list ─► note ─┐
//	cache ──────────────────────────────────────┴─► newest ─► rollout
//
// The entries are lost when the process ends. The next process lists the BundleDeployments of a Bundle once before it
// relies on its entries.
type sights struct {
	clock func() time.Time

	mu      sync.Mutex
	bundles map[types.NamespacedName]*sightsOfBundle
}

type sightsOfBundle struct {
	// listed means that this process has listed all BundleDeployments of the Bundle once. The list includes writes of
	// earlier processes.
	listed bool
	// byNamespace has at most one entry per cluster.
	byNamespace map[string]sight
}

// sight is one BundleDeployment in a state that was newer than the cache.
type sight struct {
	deployment *fleet.BundleDeployment
	at         time.Time
	// inDoubt means that it is unknown whether a later write was applied. deployment is the state before that write.
	inDoubt bool
}

func newSights(clock func() time.Time) *sights {
	return &sights{clock: clock, bundles: map[types.NamespacedName]*sightsOfBundle{}}
}

// of returns the entries of a Bundle and creates them if necessary. The caller must hold the lock.
func (s *sights) of(bundle types.NamespacedName) *sightsOfBundle {
	known := s.bundles[bundle]
	if known == nil {
		known = &sightsOfBundle{byNamespace: map[string]sight{}}
		s.bundles[bundle] = known
	}
	return known
}

// note stores objects that the API server returned.
func (s *sights) note(bundle types.NamespacedName, seen ...*fleet.BundleDeployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(bundle)
	for _, bd := range seen {
		before, ok := known.byNamespace[bd.Namespace]
		if !ok || before.deployment.UID != bd.UID || versionOf(before.deployment) < versionOf(bd) {
			known.byNamespace[bd.Namespace] = sight{deployment: bd, at: s.clock()}
		}
	}
}

// doubt records that a write, based on the state base, failed in a way that leaves its result unknown. Errors that
// prove a refusal are ignored.
func (s *sights) doubt(bundle types.NamespacedName, base *fleet.BundleDeployment, err error) {
	if isRefusal(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(bundle).byNamespace[base.Namespace] = sight{deployment: base, at: s.clock(), inDoubt: true}
}

// isRefusal reports whether an error proves that nothing was written. A conflict proves nothing: it may answer a
// retry of a request that was applied the first time.
func isRefusal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// newest returns the BundleDeployments of a Bundle as last seen, from the cache or from an answer, ordered by
// namespace. inDoubt are the namespaces in which the result of a write is unknown. newest drops the entries that the
// cache has caught up with.
func (s *sights) newest(bundle types.NamespacedName, cached []*fleet.BundleDeployment) (newest []*fleet.BundleDeployment, inDoubt map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(bundle)
	inDoubt = map[string]bool{}
	here := map[string]bool{}
	for _, bd := range cached {
		here[bd.Namespace] = true
		newest = append(newest, known.later(bd, inDoubt))
	}
	for namespace, seen := range known.byNamespace {
		switch {
		case here[namespace]:
		case seen.inDoubt || s.clock().Sub(seen.at) > unseen:
			delete(known.byNamespace, namespace) // the object was deleted, or never reached the cache
		default:
			newest = append(newest, seen.deployment)
		}
	}
	slices.SortFunc(newest, func(a, b *fleet.BundleDeployment) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return newest, inDoubt
}

// later returns the newer one of the cached and the stored state.
func (k *sightsOfBundle) later(cached *fleet.BundleDeployment, inDoubt map[string]bool) *fleet.BundleDeployment {
	seen, ok := k.byNamespace[cached.Namespace]
	switch {
	case !ok:
		return cached
	case seen.deployment.UID != cached.UID && versionOf(seen.deployment) > versionOf(cached):
		return seen.deployment // deleted and created again
	case seen.deployment.UID == cached.UID && seen.inDoubt && versionOf(seen.deployment) >= versionOf(cached):
		inDoubt[cached.Namespace] = true
		return seen.deployment
	case seen.deployment.UID == cached.UID && versionOf(seen.deployment) > versionOf(cached):
		return seen.deployment
	default:
		delete(k.byNamespace, cached.Namespace)
		return cached
	}
}

// gone drops the entry of a BundleDeployment that was deleted.
func (s *sights) gone(bundle types.NamespacedName, bd *fleet.BundleDeployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.bundles[bundle]
	if known == nil {
		return
	}
	if seen, ok := known.byNamespace[bd.Namespace]; ok && seen.deployment.UID == bd.UID {
		delete(known.byNamespace, bd.Namespace)
	}
}

// cached drops the entry that the cache has caught up with, to save memory.
func (s *sights) cached(bundle types.NamespacedName, bd *fleet.BundleDeployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.bundles[bundle]; known != nil {
		known.later(bd, map[string]bool{})
	}
}

// forget drops the entries of a deleted Bundle.
func (s *sights) forget(bundle types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bundles, bundle)
}

// isListed reports whether this process has listed all BundleDeployments of the Bundle.
func (s *sights) isListed(bundle types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(bundle).listed
}

// noteAll stores the result of a consistent list.
func (s *sights) noteAll(bundle types.NamespacedName, all []*fleet.BundleDeployment) {
	s.note(bundle, all...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(bundle).listed = true
}

// versionOf returns the resource version as a number, which grows with each change. It returns zero if the version is
// not a number.
func versionOf(bd *fleet.BundleDeployment) uint64 {
	version, err := strconv.ParseUint(bd.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
