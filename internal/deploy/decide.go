package deploy

import (
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// verdict is what a BundleDeployment needs now.
type verdict int

const (
	// LeaveAlone means that the hub says not to touch it: paused, outside its schedule, waiting for its
	// values, or about to go.
	LeaveAlone verdict = iota
	// Refuse means that this agent cannot deploy such a bundle; the status says so.
	Refuse
	// KeepFailure means that this very state was tried and failed in a way that trying again will not heal.
	KeepFailure
	// Keep means that the release is in place and only has to be looked after.
	Keep
	// Deploy means that Helm has to run.
	Deploy
)

// situation is what decide looks at. Nothing in it is changed.
type situation struct {
	BundleDeployment *fleet.BundleDeployment
	// Status is what this agent last reported, which the hub may not show yet.
	Status *fleet.BundleDeploymentStatus
	// ReleaseExists is true when the revision named by Status.Release is in Helm's history. It is only
	// looked at when Status.Release is one of the wanted release.
	ReleaseExists bool
	// Forced asks for a deployment of a state that is already in place: something it depends on changed, or
	// it is time to try a failed one again.
	Forced bool
}

// decide turns a situation into a verdict.
func decide(in situation) verdict {
	spec := &in.BundleDeployment.Spec
	switch {
	case leaveAlone(in.BundleDeployment):
		return LeaveAlone
	case unsupported(in.BundleDeployment) != "":
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

// leaveAlone tells a BundleDeployment that is not to be touched, nor reported on. One without a deployment ID
// was not yet written in full.
func leaveAlone(bd *fleet.BundleDeployment) bool {
	return bd.DeletionTimestamp != nil || bd.Spec.Paused || bd.Spec.OffSchedule || bd.Spec.WaitingForValues ||
		bd.Spec.DeploymentID == ""
}

// unsupported says what in a BundleDeployment this agent cannot do, "" if nothing.
func unsupported(bd *fleet.BundleDeployment) string {
	switch {
	case bd.Spec.HelmChartOptions != nil:
		return "charts that the agent has to download (HelmOps) are not supported by this agent"
	case bd.Spec.OCIContents:
		return "contents in an OCI registry are not supported by this agent"
	}
	return ""
}

// failedForGood tells a failure that was recognised: it is recorded as applied, and has no release.
func failedForGood(status *fleet.BundleDeploymentStatus) bool {
	installed := fleet.GetCondition(status.Conditions, fleet.ConditionInstalled)
	return installed != nil && installed.Status == "False" && status.Release == ""
}

func releaseIsWanted(bd *fleet.BundleDeployment, recorded string) bool {
	key, _, ok := parseRelease(recorded)
	return ok && key == releaseFor(bd.Name, &bd.Spec.Options)
}
