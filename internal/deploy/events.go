package deploy

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/wakeups"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// handlers returns the event handlers that enqueue changed BundleDeployments.
func (d *deployer) handlers() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if bd, ok := object.(*fleet.BundleDeployment); ok {
				d.queue.Add(bd.Name)
				d.wakeups.Publish(wakeups.States())
			}
		},
		UpdateFunc: func(before, after any) {
			old, okOld := before.(*fleet.BundleDeployment)
			bd, ok := after.(*fleet.BundleDeployment)
			if !okOld || !ok {
				return
			}
			if hub.Earlier(bd, old) { // the hub was restored: its earlier answers do not count
				d.records.hubRestored(bd.Name)
				d.wake([]string{bd.Name})
			}
			if worthALook(old, bd) {
				d.wake([]string{bd.Name})
				d.wakeups.Publish(wakeups.Bundle(bd.Name))
			}
			if state.Of(old) != state.Of(bd) {
				d.wakeups.Publish(wakeups.States())
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if bd, ok := object.(*fleet.BundleDeployment); ok {
				d.remember(bd, bd.Status.Release)
				d.records.deleted(bd)
				d.queue.Add(bd.Name)
				d.wakeups.Publish(wakeups.Bundle(bd.Name))
				d.wakeups.Publish(wakeups.States())
			}
		},
	}
}

// worthALook ignores changes of the status, which this agent writes itself.
func worthALook(old, bd *fleet.BundleDeployment) bool {
	return old.UID != bd.UID ||
		old.DeletionTimestamp.IsZero() != bd.DeletionTimestamp.IsZero() ||
		!maps.Equal(old.Labels, bd.Labels) || !maps.Equal(old.Annotations, bd.Annotations) ||
		!equality.Semantic.DeepEqual(old.Spec, bd.Spec)
}

// superseded returns a function that reports whether an operation for bd has to stop waiting, because bd was deleted, or
// another state has to be deployed now. In the second case, an atomic operation goes on: Helm would undo it, and delete the
// volumes and addresses of an installation.
func (d *deployer) superseded(bd *fleet.BundleDeployment) func() bool {
	return func() bool {
		cached := d.hub.Cached(bd.Name)
		switch {
		case cached == nil:
			return true
		case isSkipped(cached), release.HelmOptions(&bd.Spec.Options).Atomic:
			return false
		}
		return cached.UID != bd.UID || hub.Newer(bd, cached).Spec.DeploymentID != bd.Spec.DeploymentID
	}
}

// remember records a release that a status names.
func (d *deployer) remember(bd *fleet.BundleDeployment, named string) {
	if key, revision, ok := placement.ParseRelease(named); ok {
		d.inventory.Add(bd.Name, key)
		d.inventory.Name(key, revision, bd.Spec.Options.TargetNamespace == key.Namespace)
	}
}

// rememberAll records the releases of all statuses, so that their Secrets need not be read to find them.
func (d *deployer) rememberAll() {
	for _, bd := range d.hub.All() {
		d.remember(bd, bd.Status.Release)
	}
}

// objectChanged enqueues the BundleDeployments that own a changed object.
func (d *deployer) objectChanged(hash string) {
	d.wakeups.Publish(wakeups.Set(hash))
	d.enqueueChanged(d.records.usersOf(hash))
}
