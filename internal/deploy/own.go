package deploy

import (
	"context"
	"slices"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// putRight schedules a new deployment of a release with modified objects, in three cases. The release is the
// agent's own: nothing else could repair it. The hub requests it by a new forceSyncGeneration; synced is the
// previous value. The bundle has overwritten an object of another bundle, and the object was deleted with that
// bundle. For all other bundles the agent only reports the modification.
func (d *deployer) putRight(ctx context.Context, bd *fleet.BundleDeployment, r *record, synced *int64, status *fleet.BundleDeploymentStatus) error {
	if status.AppliedDeploymentID != bd.Spec.DeploymentID || failedForGood(status) {
		return nil
	}
	if len(status.ModifiedStatus) == 0 {
		r.repaired()
		return nil
	}
	forced := bd.Spec.Options.ForceSyncGeneration
	ask := isAskedFor(forced, synced) && r.repair.forced != forced
	if !ask && !d.isAgent(bd.Name) && !lacksOverwritten(bd.Spec.Options.Overwrites, status.ModifiedStatus) {
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

// lacksOverwritten reports whether an object is missing that the bundle has overwritten. An entry without a
// namespace matches all namespaces.
func lacksOverwritten(overwrites []fleet.OverwrittenResource, modified []fleet.ModifiedStatus) bool {
	return slices.ContainsFunc(modified, func(m fleet.ModifiedStatus) bool {
		return m.Missing && !m.Exist && slices.ContainsFunc(overwrites, func(o fleet.OverwrittenResource) bool {
			return strings.EqualFold(o.Kind, m.Kind) && o.Name == m.Name && (o.Namespace == "" || o.Namespace == m.Namespace)
		})
	})
}
