package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// correct reverts drift if correctDrift is enabled: it rolls the release back to its current revision. Only the
// objects that drifted are changed.
func (d *deployer) correct(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	t, wanted := r.tracking, bd.Spec.CorrectDrift
	if t == nil || !t.known {
		return nil // the state of the objects is not known yet
	}
	if r.correction.generation != bd.Generation {
		r.correction = correction{generation: bd.Generation}
	}
	drifted := t.drifted()
	if wanted == nil || !wanted.Enabled || len(drifted) == 0 {
		r.correction.worked()
		return nil
	}
	if wait := r.correction.wait(d.Clock()); wait > 0 {
		d.notCorrected(bd, r, status, wait)
		return nil
	}
	r.correction.began(d.Clock())
	made, err := d.rollBack(ctx, bd, t.release, drifted)
	if errors.Is(err, errStopped) {
		return err
	}
	if err == nil {
		err = d.corrected(ctx, bd, r, status, made)
	}
	if err == nil {
		r.correction.worked()
		return nil
	}
	r.correction.failed(d.Clock(), message(err), d.Random())
	d.log.Warn("drift could not be corrected", "bundledeployment", d.Namespace+"/"+bd.Name, "release", status.Release, "error", err)
	d.notCorrected(bd, r, status, r.correction.wait(d.Clock()))
	return nil
}

// notCorrected writes the failure into the status and schedules the next try.
func (d *deployer) notCorrected(bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus, wait time.Duration) {
	if r.correction.failure != "" {
		setCondition(status, d.Clock(), fleet.ConditionReady, r.correction.failure)
	}
	d.queue.AddAfter(bd.Name, wait)
}

// corrected updates the status to the revision that a correction made. It returns an error if drift is left.
func (d *deployer) corrected(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus, made *installed) error {
	key, _, _ := parseRelease(r.tracking.release)
	status.Release = key.at(made.Revision)
	r.tracking.continueAs(status.Release, made)
	d.log.Info("drift corrected", "bundledeployment", d.Namespace+"/"+bd.Name, "release", status.Release, "objects", len(made.Live))
	if err := d.monitor(ctx, bd, r, status); err != nil {
		return err
	}
	if ref, found := r.tracking.firstDrifted(); found {
		return fmt.Errorf("correcting drift: another writer changed %s again at once", ref.text())
	}
	return nil
}

// rollBack makes a new revision of the release's current state, for the objects that drifted. Its errors contain
// no confidential values.
func (d *deployer) rollBack(ctx context.Context, bd *fleet.BundleDeployment, from string, drifted map[objectRef]bool) (*installed, error) {
	key, number, _ := parseRelease(from)
	who, err := d.accounts.find(ctx, bd.Spec.Options.ServiceAccount)
	if err != nil {
		return nil, err
	}
	made, err := d.releaser.rollBack(ctx, rollback{
		Release: key, Revision: number, Options: &bd.Spec.Options, Identity: who, Set: d.setOf(bd.Name), Only: drifted,
		Force: bd.Spec.CorrectDrift.Force, KeepFailed: bd.Spec.CorrectDrift.KeepFailHistory,
	})
	if err != nil && !errors.Is(err, errStopped) {
		return nil, errors.New("correcting drift: " + d.cleaner(ctx, bd)(err.Error()))
	}
	return made, err
}
