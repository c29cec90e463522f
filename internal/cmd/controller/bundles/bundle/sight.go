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

// unseen is how long a BundleDeployment may be missing from the cache after it was created, before it is taken for
// gone.
const unseen = time.Minute

// sights are BundleDeployments as the API server has shown them to this process, for as long as the cache shows them
// as they were before. A rollout counts by them: what was promoted a moment ago is unavailable, whether the watch has
// told of it or not.
//
//	answer to a write, consistent list ─► note ─┐
//	cache ──────────────────────────────────────┴─► newest ─► rollout
//
// All of it ends with the process. The next one lists the BundleDeployments of a Bundle once before it counts on them.
type sights struct {
	clock func() time.Time

	mu      sync.Mutex
	bundles map[types.NamespacedName]*sightsOfBundle
}

type sightsOfBundle struct {
	// listed means that all were listed once: what others have written before this process began is known.
	listed bool
	// byNamespace has at most one for each cluster.
	byNamespace map[string]sight
}

// sight is one BundleDeployment, later than the cache had it.
type sight struct {
	deployment *fleet.BundleDeployment
	at         time.Time
	// inDoubt means that what was written since may or may not have been taken: deployment is what it was based on.
	inDoubt bool
}

func newSights(clock func() time.Time) *sights {
	return &sights{clock: clock, bundles: map[types.NamespacedName]*sightsOfBundle{}}
}

// of is to be called with the lock.
func (s *sights) of(bundle types.NamespacedName) *sightsOfBundle {
	known := s.bundles[bundle]
	if known == nil {
		known = &sightsOfBundle{byNamespace: map[string]sight{}}
		s.bundles[bundle] = known
	}
	return known
}

// note remembers what the API server answered.
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

// doubt remembers that a write was sent, based on this state, and that nobody knows what became of it. What the API
// server has certainly refused is no cause for doubt.
func (s *sights) doubt(bundle types.NamespacedName, base *fleet.BundleDeployment, err error) {
	if isRefusal(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(bundle).byNamespace[base.Namespace] = sight{deployment: base, at: s.clock(), inDoubt: true}
}

// isRefusal says of an error that nothing was written. A conflict does not say that: it may be the answer to a
// repetition of what was written the first time.
func isRefusal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// newest are the BundleDeployments of a Bundle as last seen, by the cache or otherwise, ordered by namespace, and the
// namespaces in which a write is in doubt. Sights that the cache has caught up with are forgotten.
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
			delete(known.byNamespace, namespace) // what it was based on is gone, or it never came
		default:
			newest = append(newest, seen.deployment)
		}
	}
	slices.SortFunc(newest, func(a, b *fleet.BundleDeployment) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return newest, inDoubt
}

// later is the later one of what the cache has and what was seen.
func (k *sightsOfBundle) later(cached *fleet.BundleDeployment, inDoubt map[string]bool) *fleet.BundleDeployment {
	seen, ok := k.byNamespace[cached.Namespace]
	switch {
	case !ok:
		return cached
	case seen.deployment.UID != cached.UID && versionOf(seen.deployment) > versionOf(cached):
		return seen.deployment // made anew
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

// gone forgets a BundleDeployment that does not exist any more.
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

// cached forgets what the cache has caught up with, so that nothing is kept twice.
func (s *sights) cached(bundle types.NamespacedName, bd *fleet.BundleDeployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.bundles[bundle]; known != nil {
		known.later(bd, map[string]bool{})
	}
}

// forget drops a Bundle that is gone.
func (s *sights) forget(bundle types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bundles, bundle)
}

// isListed says whether all of a Bundle's were listed by this process.
func (s *sights) isListed(bundle types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(bundle).listed
}

// noteAll remembers a list that was consistent when it was asked for.
func (s *sights) noteAll(bundle types.NamespacedName, all []*fleet.BundleDeployment) {
	s.note(bundle, all...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(bundle).listed = true
}

// versionOf grows with each change of an object; zero where the API server does not count.
func versionOf(bd *fleet.BundleDeployment) uint64 {
	version, err := strconv.ParseUint(bd.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
