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

// remove removes everything that a deleted BundleDeployment has left in the cluster.
func (d *deployer) remove(ctx context.Context, name string) error {
	if gone, err := d.hub.confirmGone(ctx, name); err != nil || !gone {
		return err
	}
	d.watches.follow(name, nil)
	d.awaited.put(name, nil)
	d.copier.unfollowCopies(name)
	known := d.records.drop(name, d.setOf(name).Hash)
	d.waiting.put(name, false)
	d.lacking.put(name, false)
	releases := d.inventory.of(name)
	if known != nil && known.copies.mayExist() || known == nil && len(releases) > 0 {
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

// removeLeft deletes the copies of a deleted BundleDeployment, if it may have left any.
func (d *deployer) removeLeft(ctx context.Context, name string) error {
	if !d.left.take(name) {
		return nil
	}
	err := d.copier.removeCopies(ctx, name, nil)
	d.left.put(name, err != nil) // retry after an error
	return err
}

// takeDown uninstalls one release of a BundleDeployment. If its objects have to stay, it only deletes the history,
// and returns true. It does not touch a release that belongs to another owner.
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
	kept = d.isAgent(name) || d.holdsAgent(last.Manifest, last.Namespace) || marks[fleet.AnnotationKeepResources] == "true"
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

// holdsAgent reports whether a manifest contains the Deployment of this agent. The name of the release is not
// enough: an agent that was registered as another Cluster finds the release of its former name.
func (d *deployer) holdsAgent(manifest, namespace string) bool {
	return slices.ContainsFunc(agentDeployments(manifest), func(object *unstructured.Unstructured) bool {
		return cmp.Or(object.GetNamespace(), namespace) == d.AgentNamespace
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

// isOurs reports whether this agent made a release for the BundleDeployment.
func (d *deployer) isOurs(r *release.Release, name string) bool {
	marks := annotationsOf(r)
	return marks[fleet.AnnotationBundleID] == name && marks[fleet.AnnotationAgentNamespace] == d.AgentNamespace
}
