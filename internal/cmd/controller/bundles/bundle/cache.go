package bundle

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cache holds results that are expensive to compute and seldom change, for the current generation of each Bundle. All
// of it can be recomputed. A nil cache holds nothing. A pass skips a cluster if the Cluster, the Bundle and the
// BundleDeployment are unchanged since the BundleDeployment was up to date.
type cache struct {
	mu      sync.Mutex
	bundles map[types.UID]*results
	// waiting are the Bundles with targets that wait for other targets.
	waiting map[types.NamespacedName]bool
}

// results are the results for one generation of a Bundle.
type results struct {
	generation int64
	// selection is nil if the Bundle's selectors do not parse.
	selection *targeting.Selection
	// targets has the result of each cluster, by the UID of its Cluster.
	targets map[types.UID]result
}

// result is the result for one cluster.
type result struct {
	of           targeting.Fingerprint
	deploymentID string
	// upToDate is the fingerprint of the state at the last check that found nothing to write. It is zero if there was no
	// such check.
	upToDate targeting.Fingerprint
}

func newCache() *cache {
	return &cache{bundles: map[types.UID]*results{}, waiting: map[types.NamespacedName]bool{}}
}

// of returns the results for the Bundle's current generation. The caller must hold the lock.
func (c *cache) of(bundle *fleet.Bundle) *results {
	known := c.bundles[bundle.UID]
	if known != nil && known.generation == bundle.Generation {
		return known
	}
	known = &results{generation: bundle.Generation}
	if selection, err := targeting.NewSelection(bundle); err == nil {
		known.selection = selection
	}
	c.bundles[bundle.UID] = known
	return known
}

// forget drops the results of a deleted Bundle.
func (c *cache) forget(bundle types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.bundles, bundle)
}

// setWaiting records whether a Bundle has targets that wait for other targets.
func (c *cache) setWaiting(bundle types.NamespacedName, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waits {
		c.waiting[bundle] = true
	} else {
		delete(c.waiting, bundle)
	}
}

func (c *cache) isWaiting(bundle types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[bundle]
}

// selection returns which clusters the Bundle selects, or nil if its selectors do not parse.
func (c *cache) selection(bundle *fleet.Bundle) *targeting.Selection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of(bundle).selection
}

// manifestHash returns the hash of the Bundle's manifest. Most cached Bundles have it.
func manifestHash(bundle *fleet.Bundle) string {
	if bundle.Spec.ResourcesHash != "" {
		return bundle.Spec.ResourcesHash
	}
	return content.Manifest{Resources: bundle.Spec.Resources}.SHA256()
}

// deploymentID returns the deployment ID of a cluster if the cluster is unchanged.
func (c *cache) deploymentID(bundle *fleet.Bundle, cluster *fleet.Cluster, of targeting.Fingerprint) (id string, known bool) {
	if c == nil {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.of(bundle).targets[cluster.UID]
	return before.deploymentID, ok && before.of == of
}

// setTargets stores the targets and drops those that are targets no longer. The results of unchanged targets are kept.
func (c *cache) setTargets(bundle *fleet.Bundle, targets []targeting.Target) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(bundle)
	current := make(map[types.UID]result, len(targets))
	for _, target := range targets {
		if target.Err != nil {
			continue
		}
		entry := result{of: target.Fingerprint, deploymentID: target.DeploymentID}
		if before := known.targets[target.Cluster.UID]; before.of == entry.of {
			entry = before
		}
		current[target.Cluster.UID] = entry
	}
	known.targets = current
}

// isUpToDate reports whether a BundleDeployment was found up to date for its target and the decision about it, and nothing it depends
// on has changed since.
func (c *cache) isUpToDate(bundle *fleet.Bundle, target targeting.Target, bd *fleet.BundleDeployment, how decided) bool {
	if c == nil || bd == nil || bd.DeletionTimestamp != nil {
		return false
	}
	state := stateOf(bundle, target.Cluster, bd, how)
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.of(bundle).targets[target.Cluster.UID]
	return entry.of == target.Fingerprint && entry.upToDate == state
}

// setUpToDate stores that nothing has to be written for a target.
func (c *cache) setUpToDate(bundle *fleet.Bundle, target targeting.Target, bd *fleet.BundleDeployment, how decided) {
	if c == nil {
		return
	}
	state := stateOf(bundle, target.Cluster, bd, how)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(bundle)
	if entry, ok := known.targets[target.Cluster.UID]; ok {
		entry.upToDate = state
		known.targets[target.Cluster.UID] = entry
	}
}

// decided is what the pass has decided about a target, apart from its options.
type decided struct {
	action         rollout.Action
	plainInSecrets bool
}

// stateOf returns a fingerprint of the BundleDeployment and of all it depends on, except for the Bundle's spec and the
// target's options. The BundleDeployment's generation changes with its spec.
func stateOf(bundle *fleet.Bundle, cluster *fleet.Cluster, bd *fleet.BundleDeployment, how decided) targeting.Fingerprint {
	p := targeting.NewPrint()
	p.Map(bundle.Labels)
	p.Texts(cluster.Status.Namespace, string(bd.UID))
	p.Flags(cluster.Spec.Paused, cluster.Status.Scheduled, cluster.Status.ActiveSchedule)
	p.Number(bd.Generation)
	p.Number(int64(how.action))
	p.Flags(how.plainInSecrets)
	p.Map(bd.Labels)
	return p.Fingerprint()
}
