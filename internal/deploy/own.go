package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// repairPause is how long objects are left alone after it was found that they are not as deployed: whoever is at
	// them may not be done.
	repairPause = 5 * time.Second
	// lastRepair is the longest pause after repairs that did not help.
	lastRepair = 10 * time.Minute
)

// repair is what was done about objects that are not as deployed.
type repair struct {
	// at is when they are deployed again, zero if nothing is planned.
	at time.Time
	// tries is how often that was done without helping, and forced the forceSyncGeneration it was done for.
	tries  int
	forced int64
}

// putRight has a release made again when something of it is not as deployed, and the agent is to see to that itself:
// it is the agent's own, and nobody else could bring it back; the hub asks for it once, by another
// forceSyncGeneration, and synced is the one it had last; or the bundle has overwritten an object of another one, with
// which it went. Of all other bundles it is only reported.
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
	status.AppliedDeploymentID = "" // which says on the hub, too, that it is not in place
	d.log.Info("objects are not as deployed and will be deployed again", "bundledeployment", d.Namespace+"/"+bd.Name,
		"object", status.ModifiedStatus[0].Kind+" "+status.ModifiedStatus[0].Name)
	d.queue.AddAfter(bd.Name, 0)
	return d.deleteExtras(ctx, r.tracking)
}

func isAskedFor(forced int64, synced *int64) bool {
	return forced > 0 && (synced == nil || *synced != forced)
}

// wait is how long objects are left alone still, and plans when they no longer are.
func (r *repair) wait(now time.Time) time.Duration {
	if r.at.IsZero() {
		r.at = now.Add(min(repairPause<<min(r.tries, 10), lastRepair))
	}
	return r.at.Sub(now)
}

// lacksOverwritten tells whether an object is missing that the bundle has in place of another's. An entry without a
// namespace is one for all.
func lacksOverwritten(overwrites []fleet.OverwrittenResource, modified []fleet.ModifiedStatus) bool {
	return slices.ContainsFunc(modified, func(m fleet.ModifiedStatus) bool {
		return m.Missing && !m.Exist && slices.ContainsFunc(overwrites, func(o fleet.OverwrittenResource) bool {
			return strings.EqualFold(o.Kind, m.Kind) && o.Name == m.Name && (o.Namespace == "" || o.Namespace == m.Namespace)
		})
	})
}

// deleteExtras deletes what left a release and is there still.
func (d *deployer) deleteExtras(ctx context.Context, t *tracking) error {
	if t == nil {
		return nil
	}
	var errs []error
	for _, ref := range t.extras {
		resource := d.metadata.Resource(t.resources[ref.GroupVersionKind])
		var err error
		if ref.Namespace == "" {
			err = resource.Delete(ctx, ref.Name, metav1.DeleteOptions{})
		} else {
			err = resource.Namespace(ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{})
		}
		if err := optional(err); err != nil {
			errs = append(errs, fmt.Errorf("deleting %s: %w", ref.text(), err))
		}
	}
	return errors.Join(errs...)
}
