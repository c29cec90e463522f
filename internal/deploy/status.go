package deploy

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The functions of this file build a status. They change the one they are given, and nothing else; now is
// the time for conditions that change.

func setCondition(status *fleet.BundleDeploymentStatus, now time.Time, kind, errorMessage string) {
	setReason(status, now, kind, fleet.ReasonError, errorMessage)
}

// setReason sets a condition to False for a reason, or to True if there is no message.
func setReason(status *fleet.BundleDeploymentStatus, now time.Time, kind, reason, errorMessage string) {
	condition := genericcondition.GenericCondition{Type: kind, Status: corev1.ConditionTrue}
	if errorMessage != "" {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, reason, errorMessage
	}
	fleet.SetCondition(&status.Conditions, now, condition)
}

// deployed records a deployment that went well.
func deployed(status *fleet.BundleDeploymentStatus, now time.Time, deploymentID, release string) {
	status.AppliedDeploymentID = deploymentID
	status.Release = release
	setCondition(status, now, fleet.ConditionInstalled, "")
	setCondition(status, now, fleet.ConditionDeployed, "")
}

// failedDeployment records a failure that will not heal by itself: the state counts as
// applied, so that nobody waits for it. Installed has the reason; that of Ready stays the one by which everybody knows
// an error.
func failedDeployment(status *fleet.BundleDeploymentStatus, now time.Time, deploymentID, reason, text string) {
	status.AppliedDeploymentID = deploymentID
	status.Release = ""
	status.Ready, status.NonModified = false, true
	status.Resources, status.ResourceCounts = nil, fleet.ResourceCounts{}
	status.NonReadyStatus, status.ModifiedStatus, status.IncompleteState = nil, nil, false
	setCondition(status, now, fleet.ConditionReady, "not ready: "+text)
	setReason(status, now, fleet.ConditionInstalled, reason, "not installed: "+text)
	setCondition(status, now, fleet.ConditionDeployed, "")
}

// notDeployed records that the wanted state could not be reached this time.
func notDeployed(status *fleet.BundleDeploymentStatus, now time.Time, reason, text string) {
	setReason(status, now, fleet.ConditionDeployed, reason, text)
}

// namespaceForbidden records a release that is in place in a namespace that could not be labelled.
func namespaceForbidden(status *fleet.BundleDeploymentStatus, now time.Time, deploymentID, release, text string) {
	status.AppliedDeploymentID = deploymentID
	status.Release = release
	setCondition(status, now, fleet.ConditionReady, text)
	setReason(status, now, fleet.ConditionInstalled, fleet.ReasonForbidden, text)
	setCondition(status, now, fleet.ConditionDeployed, "")
}

// monitored takes over what the objects of the release say.
func monitored(status *fleet.BundleDeploymentStatus, now time.Time, r report, syncGeneration int64) {
	status.Ready, status.NonModified = r.Ready, r.NonModified
	status.NonReadyStatus, status.ModifiedStatus = r.NonReady, r.Modified
	status.IncompleteState = r.Incomplete
	status.Resources, status.ResourceCounts = r.Resources, r.Counts
	status.SyncGeneration = &syncGeneration
	setCondition(status, now, fleet.ConditionReady, notReadyMessage(r))
	setCondition(status, now, fleet.ConditionMonitored, "")
}

// notMonitored records that the objects of the release could not be looked at.
func notMonitored(status *fleet.BundleDeploymentStatus, now time.Time, text string) {
	setCondition(status, now, fleet.ConditionMonitored, text)
}

// notReadyMessage says what is wrong, "" if nothing is: the first object that is not ready, else the first
// that is not as deployed.
func notReadyMessage(r report) string {
	switch {
	case len(r.NonReady) > 0:
		return state.NonReadyText(r.NonReady[0])
	case len(r.Modified) > 0:
		return state.ModifiedText(r.Modified[0])
	}
	return ""
}

// conclude cuts a status to its budget, and adds the printer columns.
func conclude(bd *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) {
	state.BoundDeployment(status)
	status.Display = displayed(bd, status)
}

// displayed are the printer columns of a BundleDeployment with a new status. The hub works them out by the same rule;
// told with the rest, they cost it no request of its own.
func displayed(bd *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) fleet.BundleDeploymentDisplay {
	reported := *bd
	reported.Status = *status
	return state.Display(&reported)
}
