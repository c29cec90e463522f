package grant

import (
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reasonGranted is the reason of the Event for a registration that took a while.
const reasonGranted = "RegistrationGranted"

// follow measures how long a request stays in each stage. Requests that were granted before this process started are
// not measured.
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

// tellGranted logs, counts and reports that a credential was handed out.
func (h *handler) tellGranted(request *fleet.ClusterRegistration, out grant.Outcome) {
	key := request.Namespace + "/" + request.Name
	h.app.Log.Info("registration granted", "registration", key, "cluster", out.Credential.ClusterNamespace+"/"+out.Credential.ClusterName)
	h.app.Metrics.Registration(metrics.OutcomeGranted)
	h.tellLeftOut(request, out)
	h.app.Took(request, reasonGranted, "registration granted", h.way.Enter(key, metrics.StageHeartbeat))
}

// reject reports why a request is not granted, and counts it once per reason.
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
