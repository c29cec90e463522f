package deploy

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/dependencies"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/pace"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	"github.com/fleet-hub/fleet/internal/deploy/wakeups"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// labelsRetry is the pause before the agent tries again to label a namespace after the API server has refused that.
	labelsRetry = 2 * time.Minute
	// failureRetry is the pause before a permanently failed state is retried: a slow cluster may have recovered.
	failureRetry = 15 * time.Minute
	// dependencyRetry is the pause before dependencies are checked again although none of them has changed.
	dependencyRetry = time.Minute
	// awaitedRetry is the pause before a retry if the awaited object is watched.
	awaitedRetry = 15 * time.Minute
	// missingRetry is the pause before the release of missing objects is read again: a program that deletes objects
	// may delete their release later.
	missingRetry = 30 * time.Second
	// unreportedConflicts is the number of conflicts in a row that are not reported.
	unreportedConflicts = 3
	// reportPause is the minimum time between two reports that differ only in details.
	reportPause = time.Second
)

// reconcile brings one BundleDeployment to the wanted state, as far as possible now, and reports its status. An
// error requests a retry.
func (d *deployer) reconcile(ctx context.Context, name string) error {
	woken := d.records.takeWoken(name) // before the cache is read, which then has the change that woke it
	cached := d.hub.Cached(name)
	if cached == nil {
		return d.remove(ctx, name)
	}
	r := d.records.of(cached, d.setOf(name).Hash)
	if woken {
		r.retryNow()
	}
	bd := hub.Newer(cached, r.written)
	status := bd.Status.DeepCopy()
	if r.status != nil {
		status = r.status.DeepCopy()
	}
	d.remember(bd, status.Release)
	if isSkipped(bd) {
		d.watches.Follow(name, nil)
		d.wakeups.WaitForObject(name, nil)
		d.copier.Unfollow(name)
		return nil
	}
	synced := status.SyncGeneration
	later := d.attempt(ctx, bd, r, status)
	watchErr := d.monitor(ctx, bd, r, status)
	correctErr := d.correct(ctx, bd, r, status)
	repairErr := d.repairModified(ctx, bd, r, synced, status)
	d.copier.Report(bd, &r.copies, status, r.isKnown())
	reportErr := d.report(ctx, bd, r, status)
	return errors.Join(later, watchErr, correctErr, repairErr, reportErr)
}

// attempt advances the BundleDeployment and writes the result into the status. During the pause after a failed attempt
// it only schedules the next one, and the status keeps the error.
func (d *deployer) attempt(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	if wait := r.retry.Wait(d.Clock()); wait > 0 {
		d.queue.AddAfter(bd.Name, wait) // the current reconcile replaced the one that was scheduled
		return nil
	}
	start := d.Clock()
	return d.recordResult(bd, r, status, start, guarded(func() error { return d.advance(ctx, bd, r, status) }))
}

// advance decides what the BundleDeployment needs and does it.
func (d *deployer) advance(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	exists, err := d.locate(ctx, bd, r, status.Release)
	if err != nil {
		r.setUnreadable(d.Clock(), outcome.Message(err))
		return err
	}
	next := decide(situation{BundleDeployment: bd, Status: status, ReleaseExists: exists, Forced: r.again})
	switch next {
	case Refuse:
		return &outcome.UnsupportedError{What: source.Unsupported(bd)}
	case Deploy:
		outcome.NotInPlace(status, bd.Spec.DeploymentID) // before Copy, which then copies again
	}
	if err := d.namespaces.Check(ctx, bd); err != nil {
		return err
	}
	generation := status.DownstreamResourcesGeneration
	copied, err := d.copier.Copy(ctx, bd, &r.copies, status)
	if err != nil {
		return err
	}
	if copied || next == KeepFailure && d.retryDue(bd, r) {
		next = Deploy
		r.deployAgain()
		outcome.NotInPlace(status, bd.Spec.DeploymentID)
	}
	forced := r.again
	err = d.execute(ctx, next, bd, r, status)
	if err != nil && forced && !outcome.IsFailure(err) {
		status.DownstreamResourcesGeneration = generation // another process has to deploy the copies, too
	}
	return err
}

// retryDue reports whether a permanently failed state has to be retried now. If it is too early, retryDue enqueues
// the BundleDeployment for the time of the retry.
func (d *deployer) retryDue(bd *fleet.BundleDeployment, r *record) bool {
	wait := failureRetry - r.sinceFailure(d.Clock())
	if wait > 0 {
		d.queue.AddAfter(bd.Name, wait) // the current reconcile replaced the one that was scheduled
	}
	return wait <= 0
}

// execute executes the action. Keep deploys as well if another release has taken objects.
func (d *deployer) execute(ctx context.Context, next action, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	if next == KeepFailure {
		outcome.SetCondition(status, d.Clock(), conditions.Deployed, "") // an earlier error may have hidden the failure
		return nil
	}
	d.wakeups.Wait(bd.Name, wakeups.States(), len(bd.Spec.DependsOn) > 0) // a change during the check is not missed
	err := dependencies.Check(bd, d.hub.All())
	d.wakeups.Wait(bd.Name, wakeups.States(), err != nil)
	if err != nil {
		return err
	}
	key := placement.ReleaseOf(bd.Name, &bd.Spec.Options)
	stale := d.inventory.Except(bd.Name, key) // a release that is found later is removed in the next pass
	if next == Keep {
		taken, err := d.releaser.IsTaken(ctx, key, stale)
		if err != nil {
			return err
		}
		if taken {
			next = Deploy // takes the objects back before the other release is uninstalled
		}
	}
	if next == Deploy {
		outcome.NotInPlace(status, bd.Spec.DeploymentID)
		if err := d.deploy(ctx, bd, r, status); err != nil {
			return err
		}
	}
	outcome.Deployed(status, d.Clock(), bd.Spec.DeploymentID, status.Release)
	return d.finish(ctx, bd, r, status.Release, stale)
}

// recordResult writes the result of advance, which began at start, into the status. It counts a failure and schedules a retry.
func (d *deployer) recordResult(bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus, start time.Time, err error) error {
	var (
		waits       *outcome.DependencyError
		refused     *outcome.LabelsRefusedError
		unsupported *outcome.UnsupportedError
		pause       time.Duration // before the next attempt; 0 if only a change helps
	)
	now := d.Clock()
	d.wakeups.Wait(bd.Name, wakeups.CRDs(), meta.IsNoMatchError(err) || r.tracking.LacksKind())
	obstacle, alone := outcome.AwaitedBy(bd, err)
	d.wakeups.WaitForObject(bd.Name, obstacle)
	switch {
	case err == nil:
		r.retryNow()
	case errors.As(err, &waits):
		outcome.NotDeployed(status, now, waits.Reason(), err.Error())
		pause = dependencyRetry
	case errors.As(err, &unsupported):
		outcome.NotDeployed(status, now, conditions.ReasonUnsupported, err.Error())
	case errors.As(err, &refused):
		d.OnDeploy(outcome.Retried, now.Sub(start))
		outcome.LabelsRefused(status, now, bd.Spec.DeploymentID, status.Release, outcome.ReasonOf(err), outcome.Message(err))
		pause = r.retry.Delay(now, labelsRetry)
	case outcome.IsFailure(err):
		r.fail(now)
		d.OnDeploy(outcome.Failed, now.Sub(start))
		outcome.FailedDeployment(status, now, bd.Spec.DeploymentID, outcome.ReasonOf(err), outcome.Message(err))
		pause = failureRetry
		d.log.Warn("deployment failed", "bundledeployment", d.Namespace+"/"+bd.Name, "error", err)
	case errors.Is(err, access.ErrStopped):
		return err // the deployment did not fail
	default:
		d.OnDeploy(outcome.Retried, now.Sub(start))
		if !apierrors.IsConflict(err) || r.retry.Failures() >= unreportedConflicts { // the retry after a concurrent write needs no report
			outcome.NotDeployed(status, now, outcome.ReasonOf(err), outcome.Message(err))
		}
		if alone {
			pause = awaitedRetry
			d.log.Warn("deployment waits for an object", "bundledeployment", d.Namespace+"/"+bd.Name, "object", obstacle.String(), "error", err)
		} else {
			pause = r.retry.Failed(now, pace.LongestRetry, d.Random())
			d.log.Warn("deployment failed and will be retried", "bundledeployment", d.Namespace+"/"+bd.Name, "error", err)
		}
	}
	if pause > 0 {
		d.queue.AddAfter(bd.Name, pause)
	}
	return nil
}

// report writes the status to the hub if it has changed.
func (d *deployer) report(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	now := d.Clock()
	outcome.Conclude(bd, status)
	detail := r.status != nil && outcome.SameButDetails(r.status, status)
	r.setStatus(status)
	if wait := reportPause - now.Sub(r.reported); detail && wait > 0 {
		d.queue.AddAfter(bd.Name, wait)
		return nil
	}
	written, err := d.hub.Report(ctx, bd, status)
	if answers.IsDeleted(err) {
		return nil // deleted in the meantime; the delete event triggers the cleanup
	}
	if err != nil {
		return err
	}
	if written != bd {
		r.report(written, now)
	}
	return nil
}
