package hub

import (
	"slices"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Report is reconcile.WriteStatus for whoever writes conditions. A condition that has come to name a trouble, or
// another one than before, is told by an Event too, with the same reason and message: whoever describes the object
// finds it in both. What is only waited for is no trouble. A status that does not change tells nothing, however
// often it is written. The status is cut to its budget, or the API server might refuse it for what others wrote into it.
func Report[T reconcile.Object](a *Context, client reconcile.StatusClient[T], read T, change func(T)) (T, error) {
	var told []genericcondition.GenericCondition
	read = reconcile.Newest(&a.written, read, a.Clock())
	written, err := reconcile.WriteStatus(client, read, func(object T) {
		before := slices.Clone(conditionsOf(object))
		change(object)
		state.Bound(object)
		told = newTroubles(before, conditionsOf(object)) // of the last attempt, which is the one that is written
	})
	if err != nil {
		return written, err
	}
	if written.GetResourceVersion() != read.GetResourceVersion() {
		a.written.Note(written, a.Clock())
	}
	for _, condition := range told {
		a.Recorder.Event(written, corev1.EventTypeWarning, condition.Reason, condition.Message)
	}
	return written, nil
}

// newTroubles are the conditions that name a trouble which they did not name before; of several that say the same,
// the first.
func newTroubles(before, after []genericcondition.GenericCondition) (found []genericcondition.GenericCondition) {
	for _, condition := range after {
		previous := fleet.GetCondition(before, condition.Type)
		said := slices.ContainsFunc(found, func(c genericcondition.GenericCondition) bool {
			return c.Reason == condition.Reason && c.Message == condition.Message
		})
		if fleet.IsTrouble(condition) && !said && (previous == nil || previous.Reason != condition.Reason) {
			found = append(found, condition)
		}
	}
	return found
}

// conditionsOf are an object's conditions; nil for a kind that has none, or whose conditions are the agents'.
func conditionsOf(object any) []genericcondition.GenericCondition {
	switch o := object.(type) {
	case *fleet.Cluster:
		return o.Status.Conditions
	case *fleet.ClusterGroup:
		return o.Status.Conditions
	case *fleet.ClusterRegistration:
		return o.Status.Conditions
	case *fleet.ClusterRegistrationToken:
		return o.Status.Conditions
	case *fleet.Bundle:
		return o.Status.Conditions
	}
	return nil
}
