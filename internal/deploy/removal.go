package deploy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// refusedRetry is the time until the agent asks again about a deleted BundleDeployment, if the hub has rejected its credential
// or rights. This can last for a moment only, such as while the hub's API server starts.
const refusedRetry = 5 * time.Minute

// remove removes everything that a deleted BundleDeployment has left in the cluster.
func (d *deployer) remove(ctx context.Context, name string) error {
	if gone, err := d.confirmGone(ctx, name); err != nil || !gone {
		return err
	}
	d.watches.Follow(name, nil)
	d.wakeups.Forget(name)
	d.copier.Unfollow(name)
	dropped := d.records.drop(name)
	owned := d.inventory.Of(name)
	if dropped != nil && dropped.copies.MayExist() || dropped == nil && len(owned) > 0 {
		d.records.setLeftCopies(name, true)
	}
	var errs []error
	kept := false
	for i, key := range owned {
		beforePurge := func(bool) error { return nil }
		if i == len(owned)-1 {
			// The history goes last: it is how the next process finds a BundleDeployment that is gone.
			beforePurge = func(keep bool) error { return d.removeLeft(ctx, name, kept || keep) }
		}
		keep, err := d.takeDown(ctx, name, key, nil, beforePurge)
		kept, errs = kept || keep, append(errs, err)
	}
	err := errors.Join(append(errs, d.removeLeft(ctx, name, kept))...)
	if err == nil {
		d.records.removed(name)
	}
	return err
}

// confirmGone reports whether a BundleDeployment was deleted. If the hub has rejected the agent, it asks again later.
func (d *deployer) confirmGone(ctx context.Context, name string) (bool, error) {
	gone, err := d.hub.ConfirmGone(ctx, name)
	if err == nil && !gone && d.hub.Cached(name) == nil {
		d.queue.AddAfter(name, refusedRetry)
	}
	return gone, err
}

// removeLeft deletes the copies of a deleted BundleDeployment, if it may have left any. Kept copies lose their label.
func (d *deployer) removeLeft(ctx context.Context, name string, kept bool) error {
	if !d.records.get(name).leftCopies {
		return nil
	}
	end := func() error { return d.copier.Remove(ctx, name, nil) }
	if kept {
		end = func() error { return d.copier.Keep(ctx, name) }
	}
	err := end()
	d.records.setLeftCopies(name, err != nil) // retry after an error
	return err
}

// takeDown uninstalls one release of a BundleDeployment. If its objects have to stay, it only deletes the history,
// and returns true. It does not touch a release that belongs to another owner, or objects in keep. If the release has one of
// those, its hooks do not run. It calls beforePurge between the objects and the history. If the objects stay, an error of
// beforePurge keeps the history.
func (d *deployer) takeDown(ctx context.Context, name string, key placement.Release, keep []manifest.Ref, beforePurge func(kept bool) error) (kept bool, err error) {
	h, err := d.releaser.History(ctx, key)
	if err != nil {
		return false, err
	}
	last := h.Last()
	marks := release.AnnotationsOf(last)
	if last == nil || !d.isOurs(marks, name) {
		d.inventory.Remove(name, key)
		return false, nil
	}
	holdsAgent := func(text string) bool { return d.holdsAgent(text, last.Namespace) }
	kept = d.isAgent(name) || slices.ContainsFunc(h.ManifestsToUninstall(), holdsAgent) || marks[fleet.AnnotationKeepResources] == "true" || d.records.get(name).kept
	if !kept {
		err = d.uninstall(ctx, h, name, keep, func() { _ = beforePurge(false) }) // the caller repeats it after an error
	} else if err = beforePurge(true); err == nil {
		err = d.releaser.Forget(h)
	}
	err = errors.Join(err, h.DeleteForged(ctx))
	if err != nil {
		return kept, err
	}
	d.inventory.Remove(name, key)
	d.log.Info("release removed", "bundledeployment", d.Namespace+"/"+name, "release", key.String(), "objectsKept", kept)
	return kept, nil
}

// holdsAgent reports whether a manifest contains the Deployment of this agent. The name of the release is not
// enough: an agent that was registered as another Cluster finds the release of its former name.
func (d *deployer) holdsAgent(text, namespace string) bool {
	return slices.ContainsFunc(source.AgentDeployments(text), func(object *unstructured.Unstructured) bool {
		return cmp.Or(object.GetNamespace(), namespace) == d.AgentNamespace
	})
}

func (d *deployer) uninstall(ctx context.Context, h *release.History, name string, keep []manifest.Ref, beforePurge func()) error {
	marks := release.AnnotationsOf(h.Last())
	identity, hooks, err := d.accounts.ForRemoval(ctx, name, marks[fleet.AnnotationServiceAccount])
	if err != nil {
		return err
	}
	// Another release has taken over an object: hooks that clean up after the workload would act on the running one.
	moved := func(text string) bool { return manifest.ContainsAny(text, h.Key.Namespace, keep) }
	hooks = hooks && !slices.ContainsFunc(h.ManifestsToUninstall(), moved)
	confined := cmp.Or(marks[annotation.TargetNamespace], d.inventory.Confinement(h.Key))
	return d.releaser.Uninstall(h, release.Removal{Identity: identity, Hooks: hooks, Confined: confined, Set: d.setOf(name), Keep: keep, BeforePurge: beforePurge})
}

// isOurs reports whether this agent made a release with these annotations for the BundleDeployment.
func (d *deployer) isOurs(marks map[string]string, name string) bool {
	return marks[fleet.AnnotationBundleID] == name && marks[fleet.AnnotationAgentNamespace] == d.AgentNamespace
}
