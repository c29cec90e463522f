package deploy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// track starts to track the objects of a revision.
func (d *deployer) track(ctx context.Context, bd *fleet.BundleDeployment, r *record, release string, made *manifest.Revision) error {
	left, err := d.reader.LeftBehind(ctx, release, made)
	if err != nil {
		return err
	}
	t, err := d.observer.Track(bd, d.setOf(bd.Name), release, made, left)
	if err != nil {
		return err
	}
	r.track(t)
	return nil
}

// monitor checks the objects of a release in the wanted state and writes their state into the status. If some
// states are not known yet, it writes nothing, unless the release cannot be read.
func (d *deployer) monitor(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	t, applied := r.tracking, status.AppliedDeploymentID == bd.Spec.DeploymentID && !failedForGood(status)
	if t == nil {
		if applied && !r.unreadableSince.IsZero() {
			outcome.NotMonitored(status, r.unreadableSince, d.Clock(), r.unreadable)
		}
		return nil
	}
	if t.Release != status.Release || !applied {
		t.Expire()
		return nil
	}
	if bd.Status.AppliedDeploymentID != status.AppliedDeploymentID {
		status.Ready = false // until the objects are known
	}
	found, err := d.observer.Check(ctx, bd, t)
	if err != nil {
		if errors.Is(err, watch.ErrReleaseLost) {
			r.untrack() // the next reconcile makes the release again
		}
		outcome.NotMonitored(status, t.FailingSince(d.Clock()), d.Clock(), outcome.Message(err))
		return err
	}
	if found == nil {
		return nil
	}
	watch.Monitored(status, d.Clock(), *found, bd.Spec.Options.ForceSyncGeneration)
	if found.Counts.Missing > 0 {
		d.queue.AddAfter(bd.Name, missingRetry)
	}
	return nil
}

// cleaner returns a function that redacts confidential values in a text. If the values cannot be read, it redacts
// the whole text.
func (d *deployer) cleaner(ctx context.Context, bd *fleet.BundleDeployment) func(string) string {
	identity, err := d.accounts.Find(ctx, bd)
	if err != nil {
		return concealed
	}
	_, confidential, err := d.values(ctx, bd, identity, placement.ReleaseOf(bd.Name, &bd.Spec.Options))
	if err != nil {
		return concealed
	}
	return confidential.Clean
}

func concealed(string) string { return drift.Concealed }

// locate finds the revision named in a status in Helm's history, and reports whether it exists and is the last
// one. It reads the history once. After that it trusts the result as long as all objects exist.
func (d *deployer) locate(ctx context.Context, bd *fleet.BundleDeployment, r *record, named string) (bool, error) {
	key, number, ok := placement.ParseRelease(named)
	if !ok {
		r.untrack()
		return false, nil
	}
	tracked := d.observer.IsCurrent(r.tracking, named)
	if tracked && !r.tracking.AnyMissing() {
		return true, nil
	}
	secret, err := d.reader.Get(ctx, key, number)
	switch {
	case apierrors.IsNotFound(err):
		r.untrack()
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading release %s: %w", named, err)
	case tracked:
		return d.isStored(ctx, r, key, number, secret)
	}
	if last, err := d.reader.IsLast(ctx, key, number); !last || err != nil {
		return false, err // an operation failed or was interrupted: its result has to be repaired
	}
	made, err := d.reader.Recall(ctx, key, number, secret)
	if err != nil || made == nil {
		return false, err
	}
	return true, d.track(ctx, bd, r, named, made)
}

// isStored reports whether the Secret of the tracked revision still has it. Otherwise the record tracks it no longer.
func (d *deployer) isStored(ctx context.Context, r *record, key placement.Release, number int, secret *corev1.Secret) (bool, error) {
	_, err := d.reader.Stored(ctx, key, number, secret)
	if apierrors.IsNotFound(err) {
		r.untrack()
		return false, nil
	}
	return err == nil, err
}
