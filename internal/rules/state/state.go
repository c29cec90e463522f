// Package state computes the state of a BundleDeployment, and sums up states for Bundles, Clusters and ClusterGroups.
// It is pure and shared by both sides: the hub fills status and printer columns with it, and the agent decides with it
// whether a dependency is satisfied.
//
//	BundleDeployment ─► state, message ─► entry ─► summary ─► Ready condition, display
package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	"github.com/fleet-hub/fleet/internal/cut"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// WaitCheckIn is the displayed state of a Cluster whose agent has never reported, or has stopped reporting.
const WaitCheckIn = "WaitCheckIn"

// Of returns the state of a deployment as the agent last reported it. It is never Pending, which is the state of a
// target without a BundleDeployment.
func Of(bd *fleet.BundleDeployment) fleet.BundleState {
	return Against(bd, bd.Spec.DeploymentID)
}

// Against returns the state of a deployment compared with a deployment ID, which may differ from the one the agent has
// to apply. The status of a Bundle compares with the newest ID, so that a change that the rollout holds back is shown
// as not applied.
func Against(bd *fleet.BundleDeployment, deploymentID string) fleet.BundleState {
	switch {
	case bd.Status.AppliedDeploymentID != deploymentID:
		if isFalse(bd, conditions.Deployed) {
			return fleet.ErrApplied
		}
		return fleet.WaitApplied
	case !bd.Status.Ready:
		return fleet.NotReady
	case deploymentID != bd.Spec.StagedDeploymentID:
		return fleet.OutOfSync
	case !bd.Status.NonModified:
		return fleet.Modified
	default:
		return fleet.Ready
	}
}

// Message returns why a deployment is in its state. It is empty if the agent gave no reason. A message about an
// installation counts only if that deployment ID is the one that was tried.
func Message(bd *fleet.BundleDeployment) string {
	return messageAgainst(bd, bd.Spec.DeploymentID)
}

func messageAgainst(bd *fleet.BundleDeployment, deploymentID string) string {
	if message := conditionMessage(bd, conditions.Deployed); message != "" {
		return message
	}
	if bd.Status.AppliedDeploymentID == deploymentID {
		if message := conditionMessage(bd, conditions.Installed); message != "" {
			return message
		}
	}
	return conditionMessage(bd, conditions.Monitored)
}

// failedAgainst reports whether the agent has met an error with the deployment. Waiting for a
// dependency is not an error. An installation error counts only if that deployment ID is the one that was tried.
func failedAgainst(bd *fleet.BundleDeployment, deploymentID string) bool {
	return conditions.IsTrouble(condition(bd, conditions.Deployed)) ||
		bd.Status.AppliedDeploymentID == deploymentID && (IsUnchecked(&bd.Status) || isFalse(bd, conditions.Installed))
}

// Unchecked begins the message of condition Ready of a release whose objects could not be checked for a while.
const Unchecked = "its objects cannot be checked: "

// IsUnchecked reports whether the objects of a release could not be checked for a while.
func IsUnchecked(status *fleet.BundleDeploymentStatus) bool {
	ready := conditions.Get(status.Conditions, conditions.Ready)
	return !status.Ready && ready != nil && strings.HasPrefix(ready.Message, Unchecked)
}

// states returns all states, ordered by severity.
func states() []fleet.BundleState {
	return []fleet.BundleState{fleet.Ready, fleet.NotReady, fleet.Pending, fleet.OutOfSync, fleet.Modified, fleet.WaitApplied, fleet.ErrApplied}
}

// Rank orders states by severity, from 1 for Ready to 7 for ErrApplied. Unknown states have rank 0.
func Rank(s fleet.BundleState) int { return slices.Index(states(), s) + 1 }

// CheckAccepted returns an error if the accepted states of a dependency include one that does not exist.
func CheckAccepted(accepted []fleet.BundleState) error {
	for i, state := range accepted {
		if Rank(state) == 0 {
			return fmt.Errorf("acceptedStates[%d]: invalid state %q, valid values are: %v", i, state, states())
		}
	}
	return nil
}

// Display returns the printer columns of a BundleDeployment.
func Display(bd *fleet.BundleDeployment) fleet.BundleDeploymentDisplay {
	return fleet.BundleDeploymentDisplay{
		Deployed:  conditionText(bd, conditions.Deployed),
		Monitored: conditionText(bd, conditions.Monitored),
		State:     string(Of(bd)),
	}
}

func conditionText(bd *fleet.BundleDeployment, conditionType string) string {
	condition := condition(bd, conditionType)
	failed := conditionType == conditions.Deployed && condition.Status == "False" && condition.Reason != ""
	if failed || condition.Reason == conditions.ReasonError {
		return "Error: " + cut.Text(condition.Message, maxDisplayed)
	}
	return string(condition.Status)
}

func conditionMessage(bd *fleet.BundleDeployment, conditionType string) string {
	return condition(bd, conditionType).Message
}

func isFalse(bd *fleet.BundleDeployment, conditionType string) bool {
	return condition(bd, conditionType).Status == "False"
}

// condition returns the condition of a type, or the zero value.
func condition(bd *fleet.BundleDeployment, conditionType string) genericcondition.GenericCondition {
	if found := conditions.Get(bd.Status.Conditions, conditionType); found != nil {
		return *found
	}
	return genericcondition.GenericCondition{}
}
