package grant

import (
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reasonGranted is the reason of the Event that tells of a registration that took a while.
const reasonGranted = "RegistrationGranted"

// follow measures how far a request is. One that was granted before this process began to look is not on its way.
func (h *handler) follow(in grant.Input, out grant.Outcome) {
	key := in.Request.Namespace + "/" + in.Request.Name
	switch out.Stage {
	case grant.Leaving, grant.Abandoned, grant.Rejected, grant.TakeoverPending,
		grant.ManagedElsewhere:
		h.way.Drop(key)
	case grant.Done:
		if grant.Used(in.Request, grant.ClusterOf(in)) {
			h.way.Arrive(key)
		}
	default:
		if stage := stageOf(out.Stage); !in.Request.Status.Granted {
			h.way.Enter(key, stage)
		}
	}
}

// stageOf is what the metrics call a stage that a request waits in.
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

// tellGranted tells everybody that a credential was handed out.
func (h *handler) tellGranted(request *fleet.ClusterRegistration, out grant.Outcome) {
	key := request.Namespace + "/" + request.Name
	h.app.Log.Info("registration granted", "registration", key, "cluster", out.Credential.ClusterNamespace+"/"+out.Credential.ClusterName)
	h.app.Metrics.Registration(metrics.OutcomeGranted)
	h.tellLeftOut(request, out)
	h.app.Took(request, reasonGranted, "registration granted", h.way.Enter(key, metrics.StageHeartbeat))
}

// reject says why a request is not granted, and counts it once for each reason.
func (h *handler) reject(request *fleet.ClusterRegistration, out grant.Outcome) error {
	previous := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
	if _, err := h.report(request, out); err != nil {
		return err
	}
	if previous == nil || previous.Reason != out.Reason {
		h.app.Metrics.Registration(metrics.OutcomeRejected)
		if out.Reason == fleet.ReasonTooManyClusters {
			h.app.Metrics.Limited(metrics.LimitClustersOfToken)
		}
	}
	return nil
}
