package grant

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byCreator is the index of Clusters by the token that created them: "<workspace>/<UID of the token>".
const byCreator = "fleet.clusters-by-creator"

// byLackOfClusters is the index, by workspace, of requests that wait until a Cluster of their token is deleted.
const byLackOfClusters = "fleet.requests-by-lack-of-clusters"

// watchLimits enqueues requests when a place becomes free.
func (h *handler) watchLimits() error {
	h.app.First(h.line)
	h.app.Clusters.Cache().AddIndexer(byCreator, func(c *fleet.Cluster) ([]string, error) {
		if with := c.Annotations[fleet.AnnotationCreatedWithToken]; with != "" {
			return []string{c.Namespace + "/" + with}, nil
		}
		return nil, nil
	})
	h.app.ClusterRegistrations.Cache().AddIndexer(byLackOfClusters, func(r *fleet.ClusterRegistration) ([]string, error) {
		if said := fleet.GetCondition(r.Status.Conditions, fleet.ConditionGranted); said != nil && said.Reason == fleet.ReasonTooManyClusters {
			return []string{r.Namespace}, nil
		}
		return nil, nil
	})
	_, err := h.app.Clusters.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if cluster, ok := obj.(*fleet.Cluster); ok {
			h.wake(h.lackingClusters(cluster))
		}
	}})
	if err != nil {
		return fmt.Errorf("watching deleted Clusters: %w", err)
	}
	return nil
}

// line puts all requests in order before any is answered.
func (h *handler) line(context.Context) {
	all, err := h.app.ClusterRegistrations.Cache().List("", labels.Everything())
	if err != nil {
		return // the cache has not started; each request is put in line when it is reconciled
	}
	for _, request := range all {
		h.turns.put(request, h.tokenOf(request))
	}
}

// tokenOf returns the identity of the token that a request names. The label is only the client's claim, so only a
// token that exists in the workspace has a line of its own. A token that is created or deleted enqueues its requests.
func (h *handler) tokenOf(request *fleet.ClusterRegistration) string {
	token, err := reconcile.Optional(h.app.ClusterRegistrationTokens.Cache().Get(request.Namespace, request.Labels[fleet.LabelRegistrationToken]))
	if err != nil {
		token = nil // only a cache that has not started
	}
	return grant.CreatedWith(token)
}

func (h *handler) wake(requests []types.NamespacedName) {
	for _, request := range requests {
		reconcile.Nudge(h.app.ClusterRegistrations)(request)
	}
}

// lackingClusters returns the oldest requests that waited for the deletion of a Cluster of the same token, as many as
// may now create one.
func (h *handler) lackingClusters(gone *fleet.Cluster) []types.NamespacedName {
	with := gone.Annotations[fleet.AnnotationCreatedWithToken]
	if with == "" || h.app.Env.MaxClustersPerToken == 0 {
		return nil
	}
	requests, err := h.app.ClusterRegistrations.Cache().GetByIndex(byLackOfClusters, gone.Namespace)
	room := h.app.Env.MaxClustersPerToken - h.countClusters(gone.Namespace, with)
	if err != nil || room <= 0 {
		return nil
	}
	var waiting []turn
	for _, request := range requests {
		if h.tokenOf(request) == with {
			waiting = append(waiting, turnOf(request))
		}
	}
	slices.SortFunc(waiting, compareTurns)
	return keysOf(waiting[:min(room, len(waiting))])
}

func (h *handler) countClusters(namespace, with string) int {
	found, err := h.app.Clusters.Cache().GetByIndex(byCreator, namespace+"/"+with)
	if err != nil {
		return 0 // only without the index, which watchLimits adds
	}
	return len(found)
}

// expire deletes what would otherwise stay for ever: a deleted request with finalizers, or an unanswered one with the
// label of another manager. done means that this controller has nothing more to do for the request.
func (h *handler) expire(request *fleet.ClusterRegistration) (done bool, err error) {
	if until, held := grant.HeldUntil(request); held {
		if left := until.Sub(h.app.Clock()); left > 0 {
			h.app.ClusterRegistrations.EnqueueAfter(request.Namespace, request.Name, left)
		} else {
			h.app.Log.Info("finalizers of a deleted registration removed", "registration", request.Namespace+"/"+request.Name)
			_, err := reconcile.Update(h.app.ClusterRegistrations, request, func(r *fleet.ClusterRegistration) { r.Finalizers = nil })
			return true, err
		}
	}
	if request.Labels[fleet.LabelClusterManagement] == "" {
		return false, nil
	}
	out := grant.OfAnotherManager(request, h.app.Clock())
	if out.Stage == grant.Abandoned {
		return true, h.abandon(request)
	}
	h.recheck(request, out)
	return true, nil
}

// inLine decides about a request that has no place.
func (h *handler) inLine(request *fleet.ClusterRegistration, ofClient bool) error {
	out := grant.InLine(request, ofClient, h.app.Clock())
	if out.Stage == grant.Abandoned {
		return h.abandon(request)
	}
	previous := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted)
	said, err := h.report(request, out)
	if err == nil && said != request && (previous == nil || previous.Reason != out.Reason) {
		limit := metrics.LimitRequestsOfToken
		if ofClient {
			limit = metrics.LimitRequestsOfClient
		}
		h.app.Metrics.Limited(limit)
	}
	return err
}

// tellLeftOut reports which labels of a granted request are not copied to its Cluster.
func (h *handler) tellLeftOut(request *fleet.ClusterRegistration, out grant.Outcome) {
	if out.LeftOut == "" {
		return
	}
	h.app.Metrics.Limited(metrics.LimitLabels)
	h.app.Recorder.Event(request, corev1.EventTypeWarning, fleet.ReasonLabelsLeftOut, out.LeftOut)
}

// byRequest is the index of credentials by the request that they answer: "<workspace>/<request>".
const byRequest = "fleet.credentials-by-request"

// credentialsOf returns the credentials that answer a request.
func (h *handler) credentialsOf(request types.NamespacedName) ([]*corev1.Secret, error) {
	return h.app.CredentialSecrets.Cache().GetByIndex(byRequest, request.String())
}
