package grant

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// noticeable is how long a request waits before its status says what for. Most are granted long before.
	noticeable = 10 * time.Second
	// takenDelay is the time until the next attempt for a right whose name another object has. Deleting that object
	// does not enqueue the request.
	takenDelay = 15 * time.Second
	// recreatedDelay is the time until a request in a workspace that is being deleted is checked again. The workspace may
	// have been created again, and the cache of namespaces may lag.
	recreatedDelay = 15 * time.Second
)

// reasonGranted is the reason of the Event for a registration that took a while.
const reasonGranted = "RegistrationGranted"

// writeStatus writes the status, and counts and records a new reason. A waiting request gets a status only after a
// while, and a granted request keeps its status while its rights are repaired.
func (h *handler) writeStatus(r *run) error {
	before := conditionReason(r.request)
	if isWaiting(r.out) {
		if r.request.Status.Granted {
			return nil
		}
		if left := noticeable - h.waited(r.request); left > 0 {
			h.app.ClusterRegistrations.EnqueueAfter(r.request.Namespace, r.request.Name, left)
			return nil
		}
	}
	request, err := h.setStatus(r.request, r.out)
	if err != nil {
		return err
	}
	if r.request = request; r.out.Reason != "" && r.out.Reason != before {
		h.recordReason(r)
	}
	return nil
}

func conditionReason(request *fleet.ClusterRegistration) string {
	if granted := conditions.Get(request.Status.Conditions, conditions.Granted); granted != nil {
		return granted.Reason
	}
	return ""
}

// reportTaken reports that another object has the name of one of a request's rights.
func (h *handler) reportTaken(r *run, taken *reconcile.TakenError) error {
	out := grant.RightsTaken(r.in, taken.What(), taken.Remedy())
	if out.Stage == grant.Abandoned {
		return h.deleteRequest(r.in.Request)
	}
	h.app.ClusterRegistrations.EnqueueAfter(r.request.Namespace, r.request.Name, takenDelay)
	h.enqueueAtEnd(r.request, out)
	_, err := h.setStatus(r.request, out)
	return err
}

// enqueueAtEnd enqueues a request at the time when it expires.
func (h *handler) enqueueAtEnd(request *fleet.ClusterRegistration, out grant.Outcome) {
	if left := out.Ends.Sub(h.app.Clock()); !out.Ends.IsZero() && left > 0 {
		h.app.ClusterRegistrations.EnqueueAfter(request.Namespace, request.Name, left)
	}
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

// setStatus writes the status, unless it is unchanged.
func (h *handler) setStatus(request *fleet.ClusterRegistration, out grant.Outcome) (*fleet.ClusterRegistration, error) {
	wanted := grantedCondition(request.Namespace, out)
	said := conditions.Get(request.Status.Conditions, conditions.Granted)
	if said != nil && said.Status == wanted.Status && said.Reason == wanted.Reason && said.Message == wanted.Message &&
		request.Status.Granted == out.Granted && (out.ClusterName == "" || request.Status.ClusterName == out.ClusterName) {
		return request, nil
	}
	return hub.Report(h.app, h.app.ClusterRegistrations, request, func(r *fleet.ClusterRegistration) {
		if out.ClusterName != "" {
			r.Status.ClusterName = out.ClusterName
		}
		r.Status.Granted = out.Granted
		conditions.Set(&r.Status.Conditions, h.app.Clock(), wanted)
	})
}

// grantedCondition returns the condition for an outcome of a request in a workspace.
func grantedCondition(workspace string, out grant.Outcome) genericcondition.GenericCondition {
	condition := genericcondition.GenericCondition{Type: conditions.Granted, Status: corev1.ConditionFalse}
	switch {
	case out.Reason != "":
		condition.Reason, condition.Message = out.Reason, out.Message
	case out.Unreadable:
		condition.Reason = conditions.ReasonTokenUnknown
		condition.Message = "label " + fleet.LabelRegistrationToken + " of this ClusterRegistration names no ClusterRegistrationToken of this namespace, so that the agent cannot read its credential: " +
			"run fleet repair " + out.ClusterName + " -n " + workspace + ", which creates a token or reinstalls the agent"
	case out.Stage == grant.Done, out.Stage == grant.Minting:
		condition.Status = corev1.ConditionTrue
		if out.LeftOut != "" {
			condition.Reason, condition.Message = conditions.ReasonLabelsLeftOut, out.LeftOut
		}
	case out.Stage == grant.AwaitingCluster:
		condition.Reason, condition.Message = conditions.ReasonAwaitingCluster, "the Cluster of this agent is being created"
	case out.Stage == grant.AwaitingNamespace:
		condition.Reason, condition.Message = conditions.ReasonAwaitingNamespace, "the Cluster's namespace is being created"
	default:
		condition.Reason, condition.Message = conditions.ReasonAwaitingRights, "the account of this agent is being created"
	}
	return condition
}

// recordReason counts and records why a request is not granted, once per reason.
func (h *handler) recordReason(r *run) {
	switch r.out.Stage {
	case grant.Rejected:
		h.app.Metrics.Registration(metrics.OutcomeRejected)
		if r.out.Reason == conditions.ReasonTooManyClusters {
			h.app.Metrics.Limited(metrics.LimitClustersOfToken)
		}
	case grant.ManagedElsewhere:
		if !r.out.Granted {
			h.app.Metrics.Registration(metrics.OutcomeRejected)
		}
	case grant.Queued:
		limit := metrics.LimitRequestsOfToken
		if r.in.Queue == grant.QueueOfClient {
			limit = metrics.LimitRequestsOfClient
		}
		h.app.Metrics.Limited(limit)
	case grant.TakeoverPending:
		h.app.Log.Info("registration waits to take over", "registration", r.key(), "cluster", r.request.Namespace+"/"+r.out.ClusterName)
		h.app.Metrics.Registration(metrics.OutcomeRejected)
		if len(r.out.Alternating) > 0 {
			h.app.Recorder.Event(grant.ClusterOf(r.in), corev1.EventTypeWarning, r.out.Reason, r.out.Message)
			return
		}
		h.app.Recorder.Eventf(grant.ClusterOf(r.in), corev1.EventTypeWarning, r.out.Reason,
			"registration %s asks to replace this Cluster's agent and does not prove that it is the same agent: to allow it, run `fleet confirm-takeover %s %s -n %s`", r.request.Name, r.out.ClusterName, r.request.Name, r.request.Namespace)
	default:
		if r.out.Reason == conditions.ReasonAccountReplaced {
			h.app.Recorder.Event(grant.ClusterOf(r.in), corev1.EventTypeWarning, r.out.Reason, r.out.Message)
		}
	}
}

// recordGranted logs, counts and records that a credential was handed out.
func (h *handler) recordGranted(r *run) {
	h.app.Log.Info("registration granted", "registration", r.key(), "cluster", r.out.Credential.ClusterNamespace+"/"+r.out.Credential.ClusterName)
	h.app.Metrics.Registration(metrics.OutcomeGranted)
	if r.out.LeftOut != "" {
		h.app.Metrics.Limited(metrics.LimitLabels)
		h.app.Recorder.Event(r.request, corev1.EventTypeWarning, conditions.ReasonLabelsLeftOut, r.out.LeftOut)
	}
	h.app.Took(r.request, reasonGranted, "registration granted", h.stages.Enter(r.key(), metrics.StageHeartbeat))
}

// measure measures how long a request stays in each stage. Requests that were granted before this process started are
// not measured.
func (h *handler) measure(in grant.Input, out grant.Outcome) {
	key := in.Request.Namespace + "/" + in.Request.Name
	switch out.Stage {
	case grant.Queued:
		return
	case grant.Leaving, grant.Abandoned, grant.Rejected, grant.Unproven, grant.TakeoverPending, grant.ManagedElsewhere, grant.OtherManager:
		h.stages.Drop(key)
	case grant.Done:
		if requests.Used(in.Request, grant.ClusterOf(in)) {
			h.stages.Arrive(key)
		}
	default:
		if stage := stageOf(out.Stage); !in.Request.Status.Granted {
			h.stages.Enter(key, stage)
		}
	}
}

// stageOf returns the metrics' name of a stage in which a request waits.
func stageOf(stage grant.Stage) string {
	switch stage {
	case grant.AwaitingCluster:
		return metrics.StageCluster
	case grant.AwaitingNamespace:
		return metrics.StageNamespace
	case grant.AwaitingRights:
		return metrics.StageRights
	}
	return metrics.StageCredential
}
