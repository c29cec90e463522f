package deploy

import (
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// action is the next step for a BundleDeployment.
type action int

const (
	// Refuse means that this agent cannot deploy such a bundle. The status contains the reason.
	Refuse action = iota
	// KeepFailure means that this state has failed permanently.
	KeepFailure
	// Keep means that the release is in place and only has to be monitored.
	Keep
	// Deploy means that Helm has to run.
	Deploy
)

// situation is the input of decide. decide does not change it.
type situation struct {
	BundleDeployment *fleet.BundleDeployment
	// Status is the last status of this agent. The hub may not have it yet.
	Status *fleet.BundleDeploymentStatus
	// ReleaseExists is true if the revision in Status.Release is in Helm's history. It only matters if Status.Release
	// is a revision of the wanted release.
	ReleaseExists bool
	// Forced requests a deployment of a state that is already in place, because one of its inputs has changed, or
	// because a failed state has to be retried.
	Forced bool
}

// decide returns the next action for a situation of a BundleDeployment that is not skipped.
func decide(in situation) action {
	spec := &in.BundleDeployment.Spec
	switch {
	case source.Unsupported(in.BundleDeployment) != "":
		return Refuse
	case in.Forced, spec.DeploymentID != in.Status.AppliedDeploymentID:
		return Deploy
	case failedForGood(in.Status):
		return KeepFailure
	case in.ReleaseExists && releaseIsWanted(in.BundleDeployment, in.Status.Release):
		return Keep
	default:
		return Deploy
	}
}

// isSkipped reports whether a BundleDeployment must be neither touched nor reported on: it is paused, outside of its
// schedule, waiting for its values, or being deleted. Without a deployment ID it is not written completely yet.
func isSkipped(bd *fleet.BundleDeployment) bool {
	return bd.DeletionTimestamp != nil || bd.Spec.Paused || bd.Spec.OffSchedule || bd.Spec.WaitingForValues ||
		bd.Spec.DeploymentID == ""
}

// failedForGood reports whether the state failed permanently: it is recorded as applied and has no release.
func failedForGood(status *fleet.BundleDeploymentStatus) bool {
	installed := conditions.Get(status.Conditions, conditions.Installed)
	return installed != nil && installed.Status == "False" && status.Release == ""
}

func releaseIsWanted(bd *fleet.BundleDeployment, recorded string) bool {
	key, _, ok := placement.ParseRelease(recorded)
	return ok && key == placement.ReleaseOf(bd.Name, &bd.Spec.Options)
}
