package clusterimport

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// refusal is why a downstream cluster does not take the agent though it may be reached and written to; an empty reason
// is that it is something else.
func refusal(err error) (reason, message string) {
	if another := (*anotherHubError)(nil); errors.As(err, &another) {
		return fleet.ReasonAnotherHub, another.message()
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return supervisionrule.Refusal(status.Status().Message)
	}
	return "", ""
}

// isBeingDeleted says whether something has to be gone downstream before the agent can come. That is soon.
func isBeingDeleted(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
