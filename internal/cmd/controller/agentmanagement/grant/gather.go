package grant

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byClient is the index of requests by client: "<workspace>/<clientID>".
const byClient = "fleet.requests-by-client"

// byCluster is the index of requests by the Cluster in their status: "<workspace>/<cluster>".
const byCluster = "fleet.requests-by-cluster"

// byToken is the index of requests by token: "<workspace>/<token>".
const byToken = "fleet.requests-by-token"

// byName is the index of requests of all workspaces by name.
const byName = "fleet.requests-by-name"

// watch enqueues requests when something that they wait for changes.
func (h *handler) watch() error {
	requests := h.app.ClusterRegistrations.Cache()
	requests.AddIndexer(byClient, func(r *fleet.ClusterRegistration) ([]string, error) {
		return []string{r.Namespace + "/" + r.Spec.ClientID}, nil
	})
	requests.AddIndexer(byCluster, func(r *fleet.ClusterRegistration) ([]string, error) {
		if r.Status.ClusterName == "" {
			return nil, nil
		}
		return []string{r.Namespace + "/" + r.Status.ClusterName}, nil
	})
	requests.AddIndexer(byToken, func(r *fleet.ClusterRegistration) ([]string, error) {
		return []string{r.Namespace + "/" + r.Labels[fleet.LabelRegistrationToken]}, nil
	})
	requests.AddIndexer(byName, func(r *fleet.ClusterRegistration) ([]string, error) { return []string{r.Name}, nil })
	h.app.CredentialSecrets.Cache().AddIndexer(byRequest, func(s *corev1.Secret) (keys []string, _ error) {
		for _, request := range requestOf(s) {
			keys = append(keys, request.String())
		}
		return keys, nil
	})
	nudge := reconcile.Nudge(h.app.ClusterRegistrations)
	h.liveness.OnChange(func(cluster types.NamespacedName) { h.wakePending(cluster, nudge) })
	return errors.Join(
		h.set.Watch(nudge),
		reconcile.Watch(h.app.Clusters.Informer(), func(c *fleet.Cluster) []types.NamespacedName {
			return h.requests(byClient, c.Namespace+"/"+c.Spec.ClientID)
		}, nudge),
		reconcile.Watch(h.app.ClusterRegistrationTokens.Informer(), func(t *fleet.ClusterRegistrationToken) []types.NamespacedName {
			return h.requests(byToken, t.Namespace+"/"+t.Name)
		}, nudge),
		reconcile.Watch(h.app.CredentialSecrets.Informer(), requestOf[*corev1.Secret], nudge),
		reconcile.Watch(h.app.Roles.Informer(), requestOf[*rbacv1.Role], nudge),
		reconcile.Watch(h.app.RoleBindings.Informer(), requestOf[*rbacv1.RoleBinding], nudge),
		reconcile.WatchNew(h.app.ClusterRoleBindings.Informer(), h.contentReaders, nudge),
	)
}

func (h *handler) requests(index, key string) (keys []types.NamespacedName) {
	found, err := h.app.ClusterRegistrations.Cache().GetByIndex(index, key)
	if err != nil {
		return nil // only without the index, which watch adds
	}
	for _, request := range found {
		keys = append(keys, types.NamespacedName{Namespace: request.Namespace, Name: request.Name})
	}
	return keys
}

func (h *handler) gather(request *fleet.ClusterRegistration) (grant.Input, error) {
	in := grant.Input{
		Now: h.app.Clock(), Request: request, Namespaces: h.app.Namespaces,
		Crowded: h.turns.crowded(request), MaxClusters: h.app.Env.MaxClustersPerToken,
		IgnoreLabels: h.app.Config.Get().IgnoreClusterRegistrationLabels, HubAddress: grant.AddressHash(h.app.Config.Get()),
	}
	client := request.Namespace + "/" + request.Spec.ClientID
	var err [8]error
	in.Clusters, err[0] = h.app.Clusters.Cache().GetByIndex(hub.ClustersByClientID, client)
	in.Others, err[1] = h.app.ClusterRegistrations.Cache().GetByIndex(byClient, client)
	in.Derived, err[2] = reconcile.Optional(h.app.Clusters.Cache().Get(request.Namespace, names.Cluster(request.Spec.ClientID)))
	if name := request.Status.ClusterName; name != "" {
		in.Named, err[3] = reconcile.Optional(h.app.Clusters.Cache().Get(request.Namespace, name))
	}
	if name := request.Labels[fleet.LabelRegistrationToken]; name != "" {
		in.Asked, err[4] = reconcile.Optional(h.app.ClusterRegistrationTokens.Cache().Get(request.Namespace, name))
	}
	if name := grant.ImporterOf(request, in.Asked); name != "" {
		in.Importer, err[5] = reconcile.Optional(h.app.Clusters.Cache().Get(request.Namespace, name))
	}
	in.Namesakes, err[7] = h.namesakes(request)
	secret := names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom)
	in.Credential, err[6] = reconcile.Optional(h.app.CredentialSecrets.Cache().Get(h.app.Namespaces.Registration, secret))
	if err := errors.Join(err[:]...); err != nil {
		return in, err
	}
	cluster := grant.ClusterOf(in)
	if cluster == nil {
		if in.MaxClusters > 0 {
			in.TokenClusters = h.countClusters(request.Namespace, grant.CreatedWith(in.Asked))
		}
		return in, nil
	}
	return in, h.gatherPlace(&in, cluster)
}

// gatherPlace adds the namespace of a request's Cluster and, if it may contain any, the request's rights there.
func (h *handler) gatherPlace(in *grant.Input, cluster *fleet.Cluster) (err error) {
	if in.NamespaceTaken, err = h.app.NamespaceTaken(cluster); err != nil {
		return err
	}
	if cluster.Status.Namespace == "" && cluster.Labels[fleet.LabelClusterManagement] == "" {
		return nil
	}
	return h.gatherRights(in, cluster)
}

// gatherRights adds the objects that a request has in its Cluster's namespace and for its Cluster.
func (h *handler) gatherRights(in *grant.Input, cluster *fleet.Cluster) error {
	request, namespace, shared := in.Request, clusters.NamespaceOf(cluster), grant.SharedName(*in)
	reader := grant.ReaderName(shared)
	var err [9]error
	account := grant.RequestAccount(request, cluster)
	in.Account, err[0] = reconcile.Optional(h.app.ServiceAccounts.Cache().Get(account.Namespace, account.Name))
	role, roleErr := reconcile.Optional(h.app.Roles.Cache().Get(request.Namespace, request.Name))
	status, statusErr := reconcile.Optional(h.app.RoleBindings.Cache().Get(request.Namespace, request.Name))
	work, workErr := reconcile.Optional(h.app.RoleBindings.Cache().Get(namespace, request.Name))
	content, contentErr := readsContents(h.app, account)
	read, readErr := reconcile.Optional(h.app.Roles.Cache().Get(h.app.Namespaces.Registration, reader))
	reads, readsErr := reconcile.Optional(h.app.RoleBindings.Cache().Get(h.app.Namespaces.Registration, reader))
	in.Imported, err[1] = reconcile.Optional(h.app.ClusterRegistrationTokens.Cache().Get(request.Namespace, names.ImportToken(cluster.Name)))
	if request.Labels[fleet.LabelRegistrationToken] == "" && in.Imported == nil {
		in.Tokens, err[2] = h.app.ClusterRegistrationTokens.Cache().List(request.Namespace, labels.Everything())
	}
	in.RightsExist = role != nil && status != nil && work != nil && content
	in.ReaderExists = read != nil && reads != nil && isOf(read, request) && isOf(reads, request)
	in.Stale = h.liveness.Stale(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	copy(err[3:], []error{roleErr, statusErr, workErr, contentErr, readErr, readsErr})
	return errors.Join(append(err[:], h.gatherOthers(in, cluster))...)
}

// namesakes returns the requests of other workspaces with the same name.
func (h *handler) namesakes(request *fleet.ClusterRegistration) ([]*fleet.ClusterRegistration, error) {
	all, err := h.app.ClusterRegistrations.Cache().GetByIndex(byName, request.Name)
	return slices.DeleteFunc(all, func(r *fleet.ClusterRegistration) bool { return r.Namespace == request.Namespace }), err
}

// gatherOthers adds the requests that were made for the Cluster when it had another client ID.
func (h *handler) gatherOthers(in *grant.Input, cluster *fleet.Cluster) error {
	found, err := h.app.ClusterRegistrations.Cache().GetByIndex(byCluster, cluster.Namespace+"/"+cluster.Name)
	for _, other := range found {
		if other.Spec.ClientID != in.Request.Spec.ClientID {
			in.Others = append(in.Others, other)
		}
	}
	return err
}

// isOf reports whether a Role or RoleBinding in the registration namespace was made for a request.
func isOf[T metav1.Object](object T, request *fleet.ClusterRegistration) bool {
	of := requestOf(object)
	return len(of) == 1 && of[0].Namespace == request.Namespace && of[0].Name == request.Name
}
