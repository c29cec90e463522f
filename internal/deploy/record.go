package deploy

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/deploy/copies"
	"github.com/fleet-hub/fleet/internal/deploy/namespaces"
	"github.com/fleet-hub/fleet/internal/deploy/pace"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// repairPause is the pause before modified objects are deployed again. The writer that modified them may still be
	// at work.
	repairPause = 5 * time.Second
	// lastRepair is the longest pause after repairs without effect.
	lastRepair = 10 * time.Minute
)

// record is the agent's state of one BundleDeployment between two reconciles. Only the worker that reconciles the
// BundleDeployment uses it. Only the methods in this file change it.
type record struct {
	uid types.UID
	// status is the last computed status. The hub may not have it yet.
	status *fleet.BundleDeploymentStatus
	// written is the BundleDeployment that the hub returned for the last report.
	written *fleet.BundleDeployment
	// reported is the time of the last report.
	reported time.Time
	// tracking describes the objects of the release; nil until they are first checked.
	tracking *watch.Tracking
	// unreadableSince is the time since which the release cannot be read, unreadable the last error; zero if it was read.
	unreadableSince time.Time
	unreadable      string
	// finished is true when nothing is left to do after the deployment of the release.
	finished bool
	// marks are the labels and annotations that the namespace got last. The hub changes them without a new deployment.
	marks namespaces.Marks
	// again is true if the release has to be deployed again although its revision is in place.
	again bool
	// repair records the repair of objects that differ from the deployed state.
	repair repair
	// copies records the objects copied downstream.
	copies copies.State
	// failed is the time at which the wanted state was last tried and failed permanently; zero if another process saw
	// the failure.
	failed time.Time
	// retry is the pause after a deployment that failed and is retried. Changed objects do not end it: hooks and retries
	// change objects themselves.
	retry pace.Retry
	// correction records the correction of drift.
	correction pace.Correction
}

// repair records the redeployments because of modified objects.
type repair struct {
	// at is the time of the next redeployment; zero if none is planned.
	at time.Time
	// tries is the number of redeployments without effect. forced is the forceSyncGeneration of the last requested
	// one.
	tries  int
	forced int64
}

// track sets the objects to observe.
func (r *record) track(t *watch.Tracking) { r.tracking, r.unreadableSince = t, time.Time{} }

// untrack forgets the objects: the state of the release is unknown.
func (r *record) untrack() { r.track(nil) }

// setUnreadable records that the release could not be read.
func (r *record) setUnreadable(now time.Time, text string) {
	if r.unreadable = text; r.unreadableSince.IsZero() {
		r.unreadableSince = now
	}
}

// isKnown reports whether the states of all objects are known.
func (r *record) isKnown() bool { return r.tracking != nil && r.tracking.Known }

// hasLost reports whether an object is missing that was already being deleted when it was deployed, or that the bundle has overwritten.
func (r *record) hasLost(overwrites []fleet.OverwrittenResource) bool {
	return r.isKnown() && r.tracking.HasLost(overwrites)
}

// deployAgain requests a deployment although the revision is in place.
func (r *record) deployAgain() { r.again = true }

// deployed records a deployment. What remains after it has to be done.
func (r *record) deployed() { r.finished, r.again = false, false }

// finish records that nothing is left to do after the deployment, and the marks of the namespace.
func (r *record) finish(marks namespaces.Marks) { r.finished, r.marks = true, marks }

// fail records a permanent failure.
func (r *record) fail(now time.Time) {
	r.failed, r.again = now, false
	r.untrack()
}

// sinceFailure returns the time since the permanent failure. If another process saw the failure, it counts from now.
func (r *record) sinceFailure(now time.Time) time.Duration {
	if r.failed.IsZero() {
		r.failed = now
	}
	return now.Sub(r.failed)
}

// retryNow ends the pause after failed deployments.
func (r *record) retryNow() { r.retry = pace.Retry{} }

// setStatus sets the last computed status, and report the answer of the hub to its report.
func (r *record) setStatus(status *fleet.BundleDeploymentStatus) { r.status = status }

func (r *record) report(written *fleet.BundleDeployment, now time.Time) {
	r.written, r.reported = written, now
}

// distrustHub forgets the answers of a hub that was restored.
func (r *record) distrustHub() { r.written = nil }

// planRepair returns how long to wait before the next redeployment, and plans it if none is planned.
func (r *record) planRepair(now time.Time) time.Duration {
	if r.repair.at.IsZero() {
		r.repair.at = now.Add(min(repairPause<<min(r.repair.tries, 10), lastRepair))
	}
	return r.repair.at.Sub(now)
}

// forceRepair records the forceSyncGeneration that requests a redeployment.
func (r *record) forceRepair(generation int64) { r.repair.forced = generation }

// repairNow records a redeployment because of modified objects.
func (r *record) repairNow() {
	r.repair.tries, r.repair.at, r.again = r.repair.tries+1, time.Time{}, true
}

// repaired records that no object is modified.
func (r *record) repaired() { r.repair = repair{forced: r.repair.forced} }
