package deploy

import (
	"context"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// repairPause is the pause before modified objects are deployed again. The writer that modified them may still be
	// at work.
	repairPause = 5 * time.Second
	// lastRepair is the longest pause after repairs without effect.
	lastRepair = 10 * time.Minute
)

// repair records the redeployments because of modified objects.
type repair struct {
	// at is the time of the next redeployment; zero if none is planned.
	at time.Time
	// tries is the number of redeployments without effect. forced is the forceSyncGeneration of the last requested
	// one.
	tries  int
	forced int64
}

// putRight schedules a new deployment of a release with modified objects, in three cases. The release is the
// agent's own: nothing else could repair it. The hub requests it by a new forceSyncGeneration; synced is the
// previous value. The bundle has overwritten an object of another bundle, and the object was deleted with that
// bundle. For all other bundles the agent only reports the modification.
func (d *deployer) putRight(ctx context.Context, bd *fleet.BundleDeployment, r *record, synced *int64, status *fleet.BundleDeploymentStatus) error {
	if status.AppliedDeploymentID != bd.Spec.DeploymentID || failedForGood(status) {
		return nil
	}
	if len(status.ModifiedStatus) == 0 {
		r.repair = repair{forced: r.repair.forced}
		return nil
	}
	forced := bd.Spec.Options.ForceSyncGeneration
	ask := isAskedFor(forced, synced) && r.repair.forced != forced
	if !ask && !d.isAgent(bd.Name) && !lacksOverwritten(bd.Spec.Options.Overwrites, status.ModifiedStatus) {
		return nil
	}
	if ask {
		r.repair.forced = forced
	} else if wait := r.repair.wait(d.Clock()); wait > 0 {
		d.queue.AddAfter(bd.Name, wait)
		return nil
	}
	r.repair.tries, r.repair.at, r.again = r.repair.tries+1, time.Time{}, true
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

// wait returns how long to wait before the next redeployment, and plans it if none is planned.
func (r *repair) wait(now time.Time) time.Duration {
	if r.at.IsZero() {
		r.at = now.Add(min(repairPause<<min(r.tries, 10), lastRepair))
	}
	return r.at.Sub(now)
}

// lacksOverwritten reports whether an object is missing that the bundle has overwritten. An entry without a
// namespace matches all namespaces.
func lacksOverwritten(overwrites []fleet.OverwrittenResource, modified []fleet.ModifiedStatus) bool {
	return slices.ContainsFunc(modified, func(m fleet.ModifiedStatus) bool {
		return m.Missing && !m.Exist && slices.ContainsFunc(overwrites, func(o fleet.OverwrittenResource) bool {
			return strings.EqualFold(o.Kind, m.Kind) && o.Name == m.Name && (o.Namespace == "" || o.Namespace == m.Namespace)
		})
	})
}
