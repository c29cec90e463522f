package grant

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/grant/requestqueue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Indexes. Those of requests and credentials have the keys "<workspace>/<value>".
const (
	// byToken is the index of requests by the name of their token.
	byToken = "fleet.requests-by-token"
	// byName is the index of requests of all workspaces by name.
	byName = "fleet.requests-by-name"
	// byAnswer is the index of requests of all workspaces by the name of the credential Secret that answers them.
	byAnswer = "fleet.requests-by-answer"
	// byRequest is the index of credentials by the request that they answer.
	byRequest = "fleet.credentials-by-request"
	// byCreator is the index of Clusters by the token that created them: "<workspace>/<UID of the token>".
	byCreator = "fleet.clusters-by-creator"
	// byLackOfClusters is the index, by workspace, of requests that wait until a Cluster of their token is deleted.
	byLackOfClusters = "fleet.requests-by-lack-of-clusters"
)

// watch enqueues requests when something that they wait for changes.
func (h *handler) watch() error {
	requests := h.app.ClusterRegistrations.Cache()
	requests.AddIndexer(byToken, func(r *fleet.ClusterRegistration) ([]string, error) {
		return []string{r.Namespace + "/" + r.Labels[fleet.LabelRegistrationToken]}, nil
	})
	requests.AddIndexer(byName, func(r *fleet.ClusterRegistration) ([]string, error) { return []string{r.Name}, nil })
	requests.AddIndexer(byAnswer, func(r *fleet.ClusterRegistration) ([]string, error) { return []string{answerTo(r)}, nil })
	h.app.CredentialSecrets.Cache().AddIndexer(byRequest, func(s *corev1.Secret) (keys []string, _ error) {
		for _, request := range requestOf(s) {
			keys = append(keys, request.String())
		}
		return keys, nil
	})
	enqueue := reconcile.Enqueue(h.app.ClusterRegistrations)
	return errors.Join(
		h.set.Watch(enqueue),
		reconcile.Watch(h.app.Clusters.Informer(), func(c *fleet.Cluster) []types.NamespacedName {
			return h.requests(hub.RequestsByClientID, c.Namespace+"/"+c.Spec.ClientID)
		}, enqueue),
		reconcile.Watch(h.app.ClusterRegistrationTokens.Informer(), func(t *fleet.ClusterRegistrationToken) []types.NamespacedName {
			return h.requests(byToken, t.Namespace+"/"+t.Name)
		}, enqueue),
		reconcile.Watch(h.app.CredentialSecrets.Informer(), requestOf[*corev1.Secret], enqueue),
		reconcile.Watch(h.app.Roles.Informer(), requestOf[*rbacv1.Role], enqueue),
		reconcile.Watch(h.app.RoleBindings.Informer(), requestOf[*rbacv1.RoleBinding], enqueue),
		reconcile.WatchNew(h.app.ClusterRoleBindings.Informer(), contentReaders, h.enqueueRequestOfReader),
	)
}

// answerTo returns the name of the credential Secret that answers a request. Client ID and random part are joined without
// a separator, so requests with another client ID may have the same one.
func answerTo(r *fleet.ClusterRegistration) string {
	return names.CredentialSecret(r.Spec.ClientID, r.Spec.ClientRandom)
}

func (h *handler) requests(index, key string) []types.NamespacedName {
	found, err := h.app.ClusterRegistrations.Cache().GetByIndex(index, key)
	if err != nil {
		return nil // only without the index, which watch adds
	}
	return keysOf(found)
}

func keysOf(found []*fleet.ClusterRegistration) (keys []types.NamespacedName) {
	for _, request := range found {
		keys = append(keys, reconcile.KeyOf(request))
	}
	return keys
}

// watchLimits enqueues requests when a place becomes free.
func (h *handler) watchLimits() error {
	h.app.BeforeControllers(h.fillQueue)
	h.app.Clusters.Cache().AddIndexer(byCreator, func(c *fleet.Cluster) ([]string, error) {
		if with := c.Annotations[annotation.CreatedWithToken]; with != "" {
			return []string{c.Namespace + "/" + with}, nil
		}
		return nil, nil
	})
	h.app.ClusterRegistrations.Cache().AddIndexer(byLackOfClusters, func(r *fleet.ClusterRegistration) ([]string, error) {
		if said := conditions.Get(r.Status.Conditions, conditions.Granted); said != nil && said.Reason == conditions.ReasonTooManyClusters {
			return []string{r.Namespace}, nil
		}
		return nil, nil
	})
	return reconcile.WatchChanges(h.app.Clusters.Informer(), func(change reconcile.Change[*fleet.Cluster]) {
		if change.New == nil {
			h.enqueue(h.lackingClusters(change.Old))
		}
	})
}

// fillQueue puts all requests in order before any is answered.
func (h *handler) fillQueue(context.Context) {
	all, err := h.app.ClusterRegistrations.Cache().List("", labels.Everything())
	if err != nil {
		return // the cache has not started; each request is put in the queue when it is reconciled
	}
	for _, request := range all {
		h.queue.Put(request, h.tokenOf(request))
	}
}

// tokenOf returns the identity of the token that a request names. The label is only the client's claim, so only a
// token that exists in the workspace has a queue of its own. A token that is created or deleted enqueues its requests.
func (h *handler) tokenOf(request *fleet.ClusterRegistration) string {
	if requests.IsRecovery(request) {
		return names.Recovery // a queue of their own
	}
	token, err := reconcile.Optional(h.app.ClusterRegistrationTokens.Cache().Get(request.Namespace, request.Labels[fleet.LabelRegistrationToken]))
	if err != nil {
		token = nil // only a cache that has not started
	}
	return grant.CreatedWith(token)
}

func (h *handler) enqueue(requests []types.NamespacedName) {
	for _, request := range requests {
		reconcile.Enqueue(h.app.ClusterRegistrations)(request)
	}
}

// lackingClusters returns the oldest requests that waited for the deletion of a Cluster of the same token, as many as
// may now create one.
func (h *handler) lackingClusters(gone *fleet.Cluster) []types.NamespacedName {
	return h.lacking(gone.Namespace, gone.Annotations[annotation.CreatedWithToken])
}

// lacking is lackingClusters for a token, which is "" for none.
func (h *handler) lacking(namespace, with string) []types.NamespacedName {
	if with == "" || h.app.Env.MaxClustersPerToken == 0 {
		return nil
	}
	found, err := h.app.ClusterRegistrations.Cache().GetByIndex(byLackOfClusters, namespace)
	if err != nil || len(found) == 0 {
		return nil
	}
	room := h.app.Env.MaxClustersPerToken - len(h.clustersOf(namespace, with))
	if room <= 0 {
		return nil
	}
	waiting := slices.DeleteFunc(slices.Clone(found), func(r *fleet.ClusterRegistration) bool { return h.tokenOf(r) != with })
	slices.SortFunc(waiting, requestqueue.Compare)
	return keysOf(waiting[:min(room, len(waiting))])
}

// release ends the reservation of a request's Cluster, and enqueues requests that wait for it: perhaps the Cluster was not
// created.
func (h *handler) release(request string) {
	if was, released := h.reserved.release(request); released {
		h.enqueue(h.lacking(was.workspace, was.token))
	}
}

// clustersOf returns the Clusters in the cache that a token has created.
func (h *handler) clustersOf(namespace, with string) []*fleet.Cluster {
	found, err := h.app.Clusters.Cache().GetByIndex(byCreator, namespace+"/"+with)
	if err != nil {
		return nil // only without the index, which watchLimits adds
	}
	return found
}

// credentialsOf returns the credentials that answer a request.
func (h *handler) credentialsOf(request types.NamespacedName) ([]*corev1.Secret, error) {
	return h.app.CredentialSecrets.Cache().GetByIndex(byRequest, request.String())
}
