package labcluster

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/contract"
)

// Stage is what happens to a LabCluster.
type Stage string

// The stages.
const (
	// Skipping writes nothing.
	Skipping Stage = "Skipping"
	// Reserving reserves the endpoint and reports it.
	Reserving Stage = "Reserving"
	// Keeping leaves the endpoint as it is.
	Keeping Stage = "Keeping"
	// Freeing frees the endpoint and removes the finalizer.
	Freeing Stage = "Freeing"
)

// Reasons of the condition Ready.
const (
	ReasonEndpointMismatch = "EndpointMismatch"
	ReasonDeleting         = clusterv1.DeletingReason
	reasonReady            = clusterv1.ReadyReason
)

// Decide returns what happens to a LabCluster. cluster is the Cluster that owns it, or nil if it is not known.
func Decide(labCluster *api.LabCluster, cluster *clusterv1.Cluster) Stage {
	hasFinalizer := slices.Contains(labCluster.Finalizers, api.EndpointFinalizer)
	switch {
	case contract.IsExternallyManaged(labCluster), contract.IsPaused(cluster, labCluster):
		return Skipping
	case labCluster.DeletionTimestamp != nil && hasFinalizer:
		return Freeing
	case labCluster.DeletionTimestamp != nil, cluster == nil:
		return Skipping
	case isProvisioned(labCluster):
		return Keeping
	default:
		return Reserving
	}
}

func isProvisioned(labCluster *api.LabCluster) bool {
	return labCluster.Status.Initialization.Provisioned != nil && *labCluster.Status.Initialization.Provisioned
}

// EndpointID returns the ID of a LabCluster's endpoint at the machine host.
func EndpointID(labCluster *api.LabCluster) string { return string(labCluster.UID) }

// CheckEndpoint returns an error if the LabCluster has another endpoint than the reserved one.
func CheckEndpoint(labCluster *api.LabCluster, reserved clusterv1.APIEndpoint) error {
	if has := labCluster.Spec.ControlPlaneEndpoint; !has.IsZero() && has != reserved {
		return fmt.Errorf("spec.controlPlaneEndpoint is %s, but the machine host has reserved %s: create the Cluster again, without an endpoint",
			has.String(), reserved.String())
	}
	return nil
}

// setProvisioned reports the reserved endpoint. It is the last step.
func setProvisioned(labCluster *api.LabCluster, now time.Time) {
	provisioned := true
	labCluster.Status.Initialization.Provisioned = &provisioned
	setReady(labCluster, now, metav1.ConditionTrue, reasonReady, "")
}

func setReady(labCluster *api.LabCluster, now time.Time, status metav1.ConditionStatus, reason, message string) {
	contract.SetCondition(&labCluster.Status.Conditions, now, metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: labCluster.Generation,
	})
}
