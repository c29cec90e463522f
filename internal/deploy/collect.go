package deploy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/wakeups"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// collectRetry is the longest pause after a garbage collection that failed in part.
const collectRetry = 30 * time.Second

// collect looks for releases of this agent in the cluster, at once and then periodically, and enqueues their
// BundleDeployments. A deleted BundleDeployment loses all its releases in one round. The releases of orphans are
// kept longer, because their BundleDeployments may not exist yet.
func (d *deployer) collect(ctx context.Context) {
	for {
		interval := d.GarbageCollectionInterval
		if err := d.sweep(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("garbage collection failed and will be retried", "error", err)
			interval = min(interval, collectRetry)
		}
		timer := time.NewTimer(interval + time.Duration(d.Random()*float64(interval)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// orphans holds the BundleDeployments that have releases or copies in the cluster and that the hub has not listed since this
// process started. The value is the time of the first round in which the BundleDeployment was missing; zero before
// that. Only collect uses it.
//
// An orphan may have been deleted while no agent ran. But the cluster may also have been registered at another
// hub, or registered again. Then Bundles that are still to come must take over these releases, and must not start
// with empty volumes.
type orphans map[string]time.Time

// sweep runs one round of garbage collection. An unreadable release does not stop the round.
func (d *deployer) sweep(ctx context.Context) error {
	newest, err := d.reader.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for key, found := range newest {
		if d.inventory.Owns(key) || d.inventory.IsForeign(key, found.ResourceVersion) {
			continue
		}
		errs = append(errs, d.adoptRelease(ctx, key, found))
	}
	if errors.Join(errs...) == nil {
		errs = append(errs, d.findCopies(ctx))
	}
	d.enqueueLeftovers(ctx, newest)
	return errors.Join(errs...)
}

// findCopies looks once for copies that earlier processes have left. An unreadable release may need them.
func (d *deployer) findCopies(ctx context.Context) error {
	if d.copiesFound {
		return nil
	}
	left, err := d.copier.Leftovers(ctx)
	if err != nil {
		return err
	}
	for name := range left {
		d.records.setLeftCopies(name, true)
		if len(d.inventory.Of(name)) == 0 {
			d.orphans[name] = time.Time{}
		}
	}
	d.copiesFound = true
	return nil
}

// enqueueLeftovers enqueues deleted BundleDeployments, and those with more than one release or with copies of before.
func (d *deployer) enqueueLeftovers(ctx context.Context, newest map[placement.Release]release.RevisionSecret) {
	maps.DeleteFunc(d.orphans, func(name string, _ time.Time) bool {
		return d.hub.Cached(name) != nil || len(d.inventory.Of(name)) == 0 && !d.records.get(name).leftCopies
	})
	for _, name := range append(d.inventory.Names(), d.records.leftCopies()...) { // the queue drops duplicates
		if d.hub.Cached(name) != nil {
			if len(d.inventory.Of(name)) > 1 || d.records.get(name).leftCopies {
				d.queue.Add(name)
			}
		} else if d.mayGo(ctx, name, newest) {
			d.queue.Add(name)
		}
	}
}

// mayGo reports whether the releases of a missing BundleDeployment may be uninstalled. If this process has known
// the BundleDeployment, they may. The releases of an orphan are kept while the hub lists no BundleDeployments for
// this agent at all, and then until two rounds at least one interval apart have missed it. An uninstallation that
// has already begun is continued.
func (d *deployer) mayGo(ctx context.Context, name string, newest map[placement.Release]release.RevisionSecret) bool {
	since, isOrphan := d.orphans[name]
	now := d.Clock()
	switch {
	case !isOrphan:
		return true
	case len(d.hub.All()) == 0:
		d.orphans[name] = time.Time{} // a hub without BundleDeployments may not be set up yet: start again
		return false
	case d.beingTakenDown(ctx, name, newest):
		return true
	case since.IsZero():
		d.orphans[name] = now
		d.log.Info("keeping a release whose BundleDeployment is missing, in case the hub still creates it", "bundledeployment", d.Namespace+"/"+name,
			"garbageCollectionInterval", d.GarbageCollectionInterval.String())
		return false
	}
	return now.Sub(since) >= d.GarbageCollectionInterval
}

// beingTakenDown reports whether all releases of a BundleDeployment are in the middle of an uninstallation. If
// another release exists, only a former release may have been uninstalled.
func (d *deployer) beingTakenDown(ctx context.Context, name string, newest map[placement.Release]release.RevisionSecret) bool {
	owned := d.inventory.Of(name)
	return len(owned) > 0 && !slices.ContainsFunc(owned, func(key placement.Release) bool {
		return !d.reader.IsBeingUninstalled(ctx, key, newest[key])
	})
}

// adoptRelease adds a release to the inventory if this agent made it.
func (d *deployer) adoptRelease(ctx context.Context, key placement.Release, found release.RevisionSecret) error {
	marks, exists, err := d.reader.Annotations(ctx, key, found)
	if err != nil || !exists {
		return err
	}
	name := marks[fleet.AnnotationBundleID]
	if name == "" || marks[fleet.AnnotationAgentNamespace] != d.AgentNamespace {
		d.inventory.SetForeign(key, found.ResourceVersion)
		return nil
	}
	if d.hub.Cached(name) == nil && len(d.inventory.Of(name)) == 0 {
		d.orphans[name] = time.Time{}
	}
	d.inventory.Add(name, key)
	return nil
}

// watchKinds resets API discovery whenever a CRD changes, and enqueues the BundleDeployments that need a kind that
// was not known.
func (d *deployer) watchKinds(ctx context.Context) {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	informer := watch.NewMetadataInformer(d.metadata, d.metadata.Resource(crds), func(*metav1.ListOptions) {})
	var handler cache.ResourceEventHandlerRegistration
	changed := func() {
		if handler.HasSynced() { // the first list is no change
			d.agent.Reset()
			d.wakeups.Publish(wakeups.CRDs())
		}
	}
	// Cannot fail: the informer is new.
	handler, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	informer.RunWithContext(ctx)
}
