package clusterimport

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// blockedError means that a person has to change something on the hub.
type blockedError struct{ reason, message string }

func (e *blockedError) Error() string { return e.message }

// refusal returns why a downstream cluster refuses the agent although it can be reached and written to. An empty
// reason means that there is another cause.
func refusal(err error) (reason, message string) {
	if blocked := (*blockedError)(nil); errors.As(err, &blocked) {
		return blocked.reason, blocked.message
	}
	if another := (*anotherHubError)(nil); errors.As(err, &another) {
		return fleet.ReasonAnotherHub, another.message()
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return supervisionrule.Refusal(status.Status().Message)
	}
	return "", ""
}

// isBeingDeleted reports whether an object downstream has to be deleted before the agent can be installed. That takes
// a short time.
func isBeingDeleted(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
