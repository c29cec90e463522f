package hub

import (
	"slices"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Report is reconcile.WriteStatus for callers that write conditions. If a condition reports a new or another problem,
// Report also records an Event with the same reason and message. Conditions that only wait are not problems. An
// unchanged status records nothing, however often it is written. The status is cut to its size limit, because the API
// server could refuse it otherwise.
func Report[T reconcile.Object](a *Context, client reconcile.StatusClient[T], read T, change func(T)) (T, error) {
	var told []genericcondition.GenericCondition
	if newest, ok := a.written.Newest(read.GetUID(), read, a.Clock()).(T); ok {
		read = newest
	}
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
		a.written.Note(written.GetUID(), written, read, a.Clock())
	}
	for _, condition := range told {
		a.Recorder.Event(written, corev1.EventTypeWarning, condition.Reason, condition.Message)
	}
	return written, nil
}

// newTroubles returns the conditions with a problem that they did not have before. Of several equal ones, it returns
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

// conditionsOf returns an object's conditions. It returns nil for kinds without conditions, or with conditions that
// agents write.
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
