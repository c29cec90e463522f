package grant

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// report writes the status. A waiting request gets a status only after a while, and a granted request keeps its
// status while its rights are repaired.
func (h *handler) report(request *fleet.ClusterRegistration, out grant.Outcome) (*fleet.ClusterRegistration, error) {
	h.recheck(request, out)
	if isWaiting(out) {
		if request.Status.Granted {
			return request, nil
		}
		if left := noticeable - h.waited(request); left > 0 {
			h.app.ClusterRegistrations.EnqueueAfter(request.Namespace, request.Name, left)
			return request, nil
		}
	}
	return h.say(request, out)
}

// recheck enqueues a request at the time when it expires.
func (h *handler) recheck(request *fleet.ClusterRegistration, out grant.Outcome) {
	if left := out.Ends.Sub(h.app.Clock()); !out.Ends.IsZero() && left > 0 {
		h.app.ClusterRegistrations.EnqueueAfter(request.Namespace, request.Name, left)
	}
}

// reportDelay is report for a request that has its rights but no credential yet.
func (h *handler) reportDelay(request *fleet.ClusterRegistration, out grant.Outcome) error {
	if request.Status.Granted || h.waited(request) < noticeable {
		return nil
	}
	out.Stage, out.Granted, out.Unreadable = grant.AwaitingRights, false, false
	_, err := h.say(request, out)
	return err
}

func (h *handler) waited(request *fleet.ClusterRegistration) time.Duration {
	return h.app.Clock().Sub(request.CreationTimestamp.Time)
}

func isWaiting(out grant.Outcome) bool {
	switch out.Stage {
	case grant.Queued:
		return true
	case grant.AwaitingCluster, grant.AwaitingNamespace, grant.AwaitingRights:
		return out.Reason == ""
	}
	return false
}

// say writes the status, unless it is unchanged.
func (h *handler) say(request *fleet.ClusterRegistration, out grant.Outcome) (*fleet.ClusterRegistration, error) {
	wanted := granted(out)
	said := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
	if said != nil && said.Status == wanted.Status && said.Reason == wanted.Reason && said.Message == wanted.Message &&
		request.Status.Granted == out.Granted && (out.ClusterName == "" || request.Status.ClusterName == out.ClusterName) {
		return request, nil
	}
	return hub.Report(h.app, h.app.ClusterRegistrations, request, func(r *fleet.ClusterRegistration) {
		if out.ClusterName != "" {
			r.Status.ClusterName = out.ClusterName
		}
		r.Status.Granted = out.Granted
		fleet.SetCondition(&r.Status.Conditions, h.app.Clock(), wanted)
	})
}

// granted returns the condition for an outcome.
func granted(out grant.Outcome) genericcondition.GenericCondition {
	condition := genericcondition.GenericCondition{Type: fleet.ConditionGranted, Status: corev1.ConditionFalse}
	switch {
	case out.Reason != "":
		condition.Reason, condition.Message = out.Reason, out.Message
	case out.Unreadable:
		condition.Reason = fleet.ReasonTokenUnknown
		condition.Message = "nobody may read the credential: the request's label " + fleet.LabelRegistrationToken + " names no ClusterRegistrationToken of this namespace; let the agent register with a token that is there"
	case out.Stage == grant.Done, out.Stage == grant.Minting:
		condition.Status = corev1.ConditionTrue
		if out.LeftOut != "" {
			condition.Reason, condition.Message = fleet.ReasonLabelsLeftOut, out.LeftOut
		}
	case out.Stage == grant.AwaitingCluster:
		condition.Reason, condition.Message = fleet.ReasonAwaitingCluster, "the Cluster of this agent is being made"
	case out.Stage == grant.AwaitingNamespace:
		condition.Reason, condition.Message = fleet.ReasonAwaitingNamespace, "the Cluster's namespace is being made"
	default:
		condition.Reason, condition.Message = fleet.ReasonAwaitingRights, "the account of this agent is being made"
	}
	return condition
}
