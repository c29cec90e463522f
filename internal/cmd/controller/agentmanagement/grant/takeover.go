package grant

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// pend keeps a request waiting that would replace a working agent, and reports that to the operator once. It revokes
// what the request got before that agent reported; in general that is nothing, and costs nothing.
func (h *handler) pend(in grant.Input, out grant.Outcome) error {
	request := in.Request
	if err := h.revoke(reconcile.OwnerOf(gvk(), request), request.Namespace, request.Name); err != nil {
		return err
	}
	previous := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
	if _, err := h.report(request, out); err != nil {
		return err
	}
	if previous == nil || previous.Reason != out.Reason {
		h.app.Log.Info("registration waits to take over", "registration", request.Namespace+"/"+request.Name, "cluster", request.Namespace+"/"+out.ClusterName)
		h.app.Metrics.Registration(metrics.OutcomeRejected)
		h.app.Recorder.Eventf(grant.ClusterOf(in), corev1.EventTypeWarning, out.Reason,
			"registration %s asks to take the place of this Cluster's agent with another token: if it is to, annotate this Cluster with %s=%s", request.Name, fleet.AnnotationConfirmTakeover, request.Name)
	}
	return nil
}

// wakePending enqueues the requests that may wait until a Cluster's agent is gone.
func (h *handler) wakePending(key types.NamespacedName, nudge func(types.NamespacedName)) {
	cluster, err := h.app.Clusters.Cache().Get(key.Namespace, key.Name)
	if err != nil {
		return // a Cluster that is gone enqueues its requests
	}
	for _, request := range h.requests(byClient, cluster.Namespace+"/"+cluster.Spec.ClientID) {
		nudge(request)
	}
}

// speaker returns the UID of the account that sent the Cluster's last heartbeat.
func (h *handler) speaker(in grant.Input) (string, error) {
	cached := grant.ClusterOf(in)
	cluster, err := reconcile.Optional(h.app.Clusters.Get(cached.Namespace, cached.Name, metav1.GetOptions{}))
	if err != nil {
		return "", fmt.Errorf("reading cluster %s/%s: %w", cached.Namespace, cached.Name, err)
	}
	if cluster == nil {
		return "", nil
	}
	return protocol.Speaker(cluster), nil
}

// recordAccountReplaced sets the reason AccountReplaced before the account is created again, because afterwards the loss can no
// longer be detected.
func (h *handler) recordAccountReplaced(in grant.Input, request *fleet.ClusterRegistration, out grant.Outcome) (*fleet.ClusterRegistration, error) {
	if out.Reason != fleet.ReasonAccountReplaced || in.Account != nil {
		return request, nil
	}
	previous := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
	said, err := h.say(request, out)
	if err == nil && (previous == nil || previous.Reason != out.Reason) {
		h.app.Recorder.Event(grant.ClusterOf(in), corev1.EventTypeWarning, out.Reason, out.Message)
	}
	return said, err
}
