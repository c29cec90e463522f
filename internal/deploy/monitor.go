package deploy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// doubtful reports whether an object is missing: the whole release may be lost.
func (t *tracking) doubtful() bool {
	for _, ref := range t.refs {
		if seen, known := t.seen[ref]; known && !seen.inPlace() {
			return true
		}
	}
	return false
}

// track starts to track the objects of a revision.
func (d *deployer) track(ctx context.Context, bd *fleet.BundleDeployment, r *record, release string, made *installed) error {
	t := &tracking{
		release: release, set: d.setOf(bd.Name), refs: made.Refs,
		resources: map[schema.GroupVersionKind]schema.GroupVersionResource{},
		seen:      map[objectRef]observation{},
		rules:     drift.RulesOf(bd.Spec.Options.Diff),
	}
	if made.Live != nil {
		t.first = made
	}
	for _, ref := range made.Refs {
		mapping, err := d.agent.mapping(ref.GroupVersionKind)
		switch {
		case meta.IsNoMatchError(err): // the object is missing; the exact resource name does not matter
			t.resources[ref.GroupVersionKind], _ = meta.UnsafeGuessKindToResource(ref.GroupVersionKind)
		case err != nil:
			return err
		default:
			t.resources[ref.GroupVersionKind] = mapping.Resource
		}
	}
	left, err := d.reader.leftBehind(ctx, release, made)
	if err != nil {
		return err
	}
	for _, ref := range left {
		mapping, err := d.agent.mapping(ref.GroupVersionKind)
		if err != nil {
			continue // the kind was deleted, and the object with it
		}
		t.resources[ref.GroupVersionKind] = mapping.Resource
		t.extras = append(t.extras, ref)
	}
	r.tracking = t
	return nil
}

func ignoredConditions(options *fleet.BundleDeploymentOptions) []map[string]string {
	if options.Ignore == nil {
		return nil
	}
	return options.Ignore.Conditions
}

// monitor checks the objects of a release in the wanted state and writes their state into the status. If some
// states are not known yet, it writes nothing; the sync of the watches triggers the next reconcile.
func (d *deployer) monitor(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	t := r.tracking
	if t == nil {
		return nil
	}
	t.known = false // drift must not be corrected by an earlier observation
	if t.release != status.Release || status.AppliedDeploymentID != bd.Spec.DeploymentID || failedForGood(status) {
		return nil
	}
	t.heed(&bd.Spec.Options)
	d.watches.follow(bd.Name, t.watched())
	known, err := true, error(nil)
	if first := t.first; first != nil {
		t.first = nil
		err = d.takeIn(ctx, bd, t, first.Live, first.Wanted)
	} else {
		known, err = d.look(ctx, bd, t)
	}
	if err == nil && known {
		err = d.lookForExtras(ctx, t)
	}
	switch {
	case err != nil:
		if errors.Is(err, errReleaseLost) {
			r.tracking = nil // the next reconcile makes the release again
		}
		notMonitored(status, d.Clock(), message(err))
		return err
	case known:
		t.known = true
		monitored(status, d.Clock(), newReport(t.sightings(), t.extras...), bd.Spec.Options.ForceSyncGeneration)
	default:
		d.queue.AddAfter(bd.Name, watchPatience+time.Second) // in case no event triggers it earlier
	}
	return nil
}

// look updates the observed state of the objects. It compares the cached metadata and fetches only changed
// objects. An object that other writers change again and again is fetched later. It returns false while the
// metadata are not synced.
func (d *deployer) look(ctx context.Context, bd *fleet.BundleDeployment, t *tracking) (known bool, err error) {
	var changed []objectRef
	known = true
	now := d.Clock()
	for _, ref := range t.refs {
		found, ready := d.watches.look(t.resources[ref.GroupVersionKind], ref.Namespace, ref.Name)
		last, seen := t.seen[ref]
		switch {
		case !ready:
			known = known && seen
		case found != nil && seen && last.inPlace() && last.ResourceVersion == found.ResourceVersion:
		case found != nil && seen && last.UID == found.UID && t.rewrites[ref].wait(now) > 0:
			d.queue.AddAfter(bd.Name, t.rewrites[ref].wait(now))
		default:
			changed = append(changed, ref)
		}
	}
	live, fetchErr := d.fetch(ctx, t, changed)
	return known, errors.Join(fetchErr, d.takeIn(ctx, bd, t, live, nil))
}

// fetch reads objects in parallel. An object that does not exist is nil in the result.
func (d *deployer) fetch(ctx context.Context, t *tracking, refs []objectRef) (manifest, error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	var errs []error
	live := manifest{}
	slots := make(chan struct{}, parallelism)
	for _, ref := range refs {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			found, err := d.get(ctx, t.resources[ref.GroupVersionKind], ref)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsNotFound(err):
				live[ref] = nil
			case err != nil:
				errs = append(errs, fmt.Errorf("reading %s: %w", ref.text(), err))
			default:
				live[ref] = found
			}
		})
	}
	group.Wait()
	return live, errors.Join(errs...)
}

func (d *deployer) get(ctx context.Context, resource schema.GroupVersionResource, ref objectRef) (*unstructured.Unstructured, error) {
	client := d.agent.dynamic.Resource(resource)
	if ref.Namespace == "" {
		return client.Get(ctx, ref.Name, metav1.GetOptions{})
	}
	return client.Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
}
