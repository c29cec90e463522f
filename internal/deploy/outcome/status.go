package outcome

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// The functions in this file build a status. They change only the given status. now is the time of conditions that
// change.

func SetCondition(status *fleet.BundleDeploymentStatus, now time.Time, kind, errorMessage string) {
	setReason(status, now, kind, conditions.ReasonError, errorMessage)
}

// setReason sets a condition to False with a reason, or to True if errorMessage is empty.
func setReason(status *fleet.BundleDeploymentStatus, now time.Time, kind, reason, errorMessage string) {
	condition := genericcondition.GenericCondition{Type: kind, Status: corev1.ConditionTrue}
	if errorMessage != "" {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, reason, errorMessage
	}
	conditions.Set(&status.Conditions, now, condition)
}

// Deployed records a successful deployment.
func Deployed(status *fleet.BundleDeploymentStatus, now time.Time, deploymentID, release string) {
	status.AppliedDeploymentID = deploymentID
	status.Release = release
	SetCondition(status, now, conditions.Installed, "")
	SetCondition(status, now, conditions.Deployed, "")
}

// Reported reports whether a status names a revision that was made at that time, and reports it as deployed since then.
func Reported(status *fleet.BundleDeploymentStatus, revision string, made time.Time) bool {
	deployed := conditions.Get(status.Conditions, conditions.Deployed)
	if status.Release != revision || deployed == nil || deployed.Status != corev1.ConditionTrue {
		return false
	}
	since, err := time.Parse(time.RFC3339, deployed.LastUpdateTime)
	return err == nil && !since.Before(made.Truncate(time.Second))
}

// FailedDeployment records a permanent failure. The state counts as applied, so that nothing waits for it.
// Installed has the specific reason; Ready keeps the general reason Error, which clients expect.
func FailedDeployment(status *fleet.BundleDeploymentStatus, now time.Time, deploymentID, reason, text string) {
	status.AppliedDeploymentID = deploymentID
	status.Release = ""
	status.Ready, status.NonModified = false, true
	status.Resources, status.ResourceCounts = nil, fleet.ResourceCounts{}
	status.NonReadyStatus, status.ModifiedStatus, status.IncompleteState = nil, nil, false
	SetCondition(status, now, conditions.Ready, "not ready: "+text)
	setReason(status, now, conditions.Installed, reason, "not installed: "+text)
	SetCondition(status, now, conditions.Deployed, "")
}

// NotDeployed records that this attempt did not reach the wanted state.
func NotDeployed(status *fleet.BundleDeploymentStatus, now time.Time, reason, text string) {
	setReason(status, now, conditions.Deployed, reason, text)
}

// NotInPlace records that a state that counts as applied has to be deployed again: its release was lost, or an input has
// changed. If that fails, the status must not show the state of before.
func NotInPlace(status *fleet.BundleDeploymentStatus, deploymentID string) {
	if status.AppliedDeploymentID == deploymentID {
		status.AppliedDeploymentID = ""
	}
}

// LabelsRefused records a release that is in place, in a namespace that could not be labelled.
func LabelsRefused(status *fleet.BundleDeploymentStatus, now time.Time, deploymentID, release, reason, text string) {
	status.AppliedDeploymentID = deploymentID
	status.Release = release
	SetCondition(status, now, conditions.Ready, text)
	setReason(status, now, conditions.Installed, reason, text)
	SetCondition(status, now, conditions.Deployed, "")
}

// Monitored records that the objects of the release were checked. The warning may be empty.
func Monitored(status *fleet.BundleDeploymentStatus, now time.Time, warning string) {
	conditions.Set(&status.Conditions, now, genericcondition.GenericCondition{Type: conditions.Monitored, Status: corev1.ConditionTrue, Message: warning})
}

// monitorPatience is how long a release stays ready while its objects cannot be checked. A short outage of an API server must
// not change its state.
const monitorPatience = 2 * time.Minute

// NotMonitored records that the objects of the release could not be checked since a time of this process. The condition keeps that
// time, also if the error changes. After monitorPatience, a ready release is no longer ready, because its objects may have changed.
// The next successful check sets its state again.
func NotMonitored(status *fleet.BundleDeploymentStatus, since, now time.Time, text string) {
	SetCondition(status, now, conditions.Monitored, text)
	conditions.Get(status.Conditions, conditions.Monitored).LastUpdateTime = since.UTC().Format(time.RFC3339)
	if status.Ready && now.Sub(since) > monitorPatience {
		status.Ready = false
		SetCondition(status, now, conditions.Ready, state.Unchecked+text)
	}
}

// Conclude limits the size of a status and sets the printer columns.
func Conclude(bd *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) {
	state.BoundDeployment(status)
	status.Display = Displayed(bd, status)
}

// Displayed returns the printer columns of a BundleDeployment with a new status. The hub computes them by the same
// rule. If the agent sends them with the status, the hub needs no request of its own.
func Displayed(bd *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) fleet.BundleDeploymentDisplay {
	reported := *bd
	reported.Status = *status
	return state.Display(&reported)
}

// SameButDetails reports whether two statuses differ only in details: messages and lists.
func SameButDetails(a, b *fleet.BundleDeploymentStatus) bool {
	same := a.AppliedDeploymentID == b.AppliedDeploymentID && a.Release == b.Release && a.Ready == b.Ready &&
		a.NonModified == b.NonModified && len(a.Conditions) == len(b.Conditions)
	for i := 0; same && i < len(a.Conditions); i++ {
		same = a.Conditions[i].Type == b.Conditions[i].Type && a.Conditions[i].Status == b.Conditions[i].Status
	}
	return same
}
