package deploy

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// remove takes down everything a BundleDeployment that is gone has left.
func (d *deployer) remove(ctx context.Context, name string) error {
	if gone, err := d.hub.confirmGone(ctx, name); err != nil || !gone {
		return err
	}
	d.watches.follow(name, nil)
	d.awaited.put(name, nil)
	d.unfollowCopies(name)
	known := d.records.drop(name, d.setOf(name).Hash)
	d.waiting.put(name, false)
	d.lacking.put(name, false)
	releases := d.inventory.of(name)
	if known != nil && known.copies || known == nil && len(releases) > 0 {
		d.left.put(name, true)
	}
	var errs []error
	for _, key := range releases {
		kept, err := d.takeDown(ctx, name, key)
		if kept {
			d.left.put(name, false)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, d.removeLeft(ctx, name))...)
}

// removeLeft deletes the copies of a BundleDeployment that is gone, if it may have left any.
func (d *deployer) removeLeft(ctx context.Context, name string) error {
	if !d.left.take(name) {
		return nil
	}
	err := d.removeCopies(ctx, name, nil)
	d.left.put(name, err != nil) // for the next try
	return err
}

// takeDown uninstalls one release of a BundleDeployment, or only forgets it if its objects are to stay, and
// reports which. A release that turns out to be somebody else's is left alone.
func (d *deployer) takeDown(ctx context.Context, name string, key releaseKey) (kept bool, err error) {
	h, err := d.releaser.history(ctx, key)
	if err != nil {
		return false, err
	}
	last := h.last()
	if last == nil || !d.isOurs(last, name) {
		d.inventory.remove(name, key)
		return false, nil
	}
	marks := annotationsOf(last)
	kept = d.isAgent(name) || d.holdsAgent(last) || marks[fleet.AnnotationKeepResources] == "true"
	if kept {
		err = d.releaser.forget(h)
	} else {
		err = d.uninstall(ctx, h, name)
	}
	err = errors.Join(err, h.deleteForged(ctx))
	if err != nil {
		return kept, err
	}
	d.inventory.remove(name, key)
	d.log.Info("release removed", "bundledeployment", d.Namespace+"/"+name, "release", key.String(), "objectsKept", kept)
	return kept, nil
}

// holdsAgent reports whether a release contains the Deployment of this agent. Its name need not tell: an agent that has
// registered as another Cluster finds the release of its former name.
func (d *deployer) holdsAgent(r *release.Release) bool {
	objects, err := parseObjects([]byte(r.Manifest))
	return err == nil && slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool {
		return isAgentDeployment(object) && cmp.Or(object.GetNamespace(), r.Namespace) == d.AgentNamespace
	})
}

func (d *deployer) uninstall(ctx context.Context, h *history, name string) error {
	marks := annotationsOf(h.last())
	who, hooks, err := d.accounts.forRemoval(ctx, marks[fleet.AnnotationServiceAccount])
	if err != nil {
		return err
	}
	confined := cmp.Or(marks[fleet.AnnotationTargetNamespace], d.inventory.confinement(h.key))
	return d.releaser.uninstallFrom(h, removal{Identity: who, Hooks: hooks, Confined: confined, Set: d.setOf(name)})
}

// isOurs tells a release this agent made for a BundleDeployment from all others.
func (d *deployer) isOurs(r *release.Release, name string) bool {
	marks := annotationsOf(r)
	return marks[fleet.AnnotationBundleID] == name && marks[fleet.AnnotationAgentNamespace] == d.AgentNamespace
}

// annotationsOf are those of the chart a release was made of.
func annotationsOf(r *release.Release) map[string]string {
	if r.Chart == nil || r.Chart.Metadata == nil {
		return nil
	}
	return r.Chart.Metadata.Annotations
}
