package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// correct reverts drift if correctDrift is enabled: it rolls the release back to its current revision. Only the
// objects that drifted are changed.
func (d *deployer) correct(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	t, wanted := r.tracking, bd.Spec.CorrectDrift
	if !r.isKnown() {
		return nil
	}
	failed := r.correction.Failure != ""
	r.correction.For(bd.Generation)
	drifted := t.Drifted()
	if wanted == nil || !wanted.Enabled || len(drifted) == 0 {
		r.correction.Worked()
		if failed { // its revision may be left in the history, which is read again
			r.untrack()
			d.queue.AddAfter(bd.Name, 0)
		}
		return nil
	}
	if wait := r.correction.Wait(d.Clock()); wait > 0 {
		d.notCorrected(bd, r, status, wait)
		return nil
	}
	r.correction.Began(d.Clock())
	made, err := d.rollBack(ctx, bd, t.Release, drifted)
	if errors.Is(err, access.ErrStopped) {
		return err
	}
	if err == nil {
		err = d.corrected(ctx, bd, r, status, made)
	}
	if err == nil {
		r.correction.Worked()
		return nil
	}
	r.correction.Failed(d.Clock(), outcome.Message(err), d.Random())
	d.log.Warn("drift could not be corrected", "bundledeployment", d.Namespace+"/"+bd.Name, "release", status.Release, "error", err)
	d.notCorrected(bd, r, status, r.correction.Wait(d.Clock()))
	return nil
}

// notCorrected writes the failure into the status and schedules the next try.
func (d *deployer) notCorrected(bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus, wait time.Duration) {
	if r.correction.Failure != "" {
		outcome.SetCondition(status, d.Clock(), conditions.Ready, r.correction.Failure)
	}
	d.queue.AddAfter(bd.Name, wait)
}

// corrected updates the status to the revision that a correction made. It returns an error if drift is left.
func (d *deployer) corrected(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus, made *manifest.Revision) error {
	key, _, _ := placement.ParseRelease(r.tracking.Release)
	status.Release = key.At(made.Number)
	r.tracking.ContinueAs(status.Release, made)
	d.log.Info("drift corrected", "bundledeployment", d.Namespace+"/"+bd.Name, "release", status.Release, "objects", len(made.Live))
	if err := d.monitor(ctx, bd, r, status); err != nil {
		return err
	}
	if ref, found := r.tracking.FirstDrifted(); found {
		return fmt.Errorf("correcting drift: another writer changed %s again at once", ref.Text())
	}
	return nil
}

// rollBack makes a new revision of the release's current state, for the objects that drifted. Its errors contain
// no confidential values.
func (d *deployer) rollBack(ctx context.Context, bd *fleet.BundleDeployment, from string, drifted map[manifest.Ref]bool) (*manifest.Revision, error) {
	key, number, _ := placement.ParseRelease(from)
	identity, err := d.accounts.Find(ctx, bd)
	if err != nil {
		return nil, err
	}
	made, err := d.releaser.RollBack(ctx, release.Rollback{
		Release: key, Revision: number, Options: &bd.Spec.Options, Identity: identity, Set: d.setOf(bd.Name), Only: drifted,
		Force: bd.Spec.CorrectDrift.Force, KeepFailed: bd.Spec.CorrectDrift.KeepFailHistory,
		Superseded: d.superseded(bd), Changes: d.changesOf(bd.Name, d.setOf(bd.Name).Hash),
	})
	if err != nil && !errors.Is(err, access.ErrStopped) {
		return nil, errors.New("correcting drift: " + d.cleaner(ctx, bd)(err.Error()))
	}
	return made, err
}

// repairModified schedules a new deployment of a release with modified objects, in four cases. The release is the
// agent's own: nothing else could repair it. The hub requests it by a new forceSyncGeneration; synced is the
// previous value. The bundle has overwritten an object of another bundle, and the object was deleted with that
// bundle. An object has gone that was already being deleted when it was deployed. For all other bundles the agent only
// reports the modification.
func (d *deployer) repairModified(ctx context.Context, bd *fleet.BundleDeployment, r *record, synced *int64, status *fleet.BundleDeploymentStatus) error {
	if status.AppliedDeploymentID != bd.Spec.DeploymentID || failedForGood(status) {
		return nil
	}
	if len(status.ModifiedStatus) == 0 {
		r.repaired()
		return nil
	}
	forced := bd.Spec.Options.ForceSyncGeneration
	ask := isAskedFor(forced, synced) && r.repair.forced != forced
	if !ask && !d.isAgent(bd.Name) && !r.hasLost(bd.Spec.Options.Overwrites) {
		return nil
	}
	if ask {
		r.forceRepair(forced)
	} else if wait := r.planRepair(d.Clock()); wait > 0 {
		d.queue.AddAfter(bd.Name, wait)
		return nil
	}
	r.repairNow()
	status.AppliedDeploymentID = "" // shows on the hub that the state is not in place
	d.log.Info("objects are modified or missing and will be deployed again", "bundledeployment", d.Namespace+"/"+bd.Name,
		"object", status.ModifiedStatus[0].Kind+" "+status.ModifiedStatus[0].Name)
	d.queue.AddAfter(bd.Name, 0)
	if r.tracking == nil {
		return nil
	}
	return d.observer.DeleteExtras(ctx, r.tracking)
}

func isAskedFor(forced int64, synced *int64) bool {
	return forced > 0 && (synced == nil || *synced != forced)
}
