package grant

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	"github.com/fleet-hub/fleet/internal/rules/recovery"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// reads reads from caches and keeps the errors.
type reads struct{ errs []error }

func (r *reads) err() error { return errors.Join(r.errs...) }

// get returns an object, or nil if it does not exist or no name is given.
func get[T any](r *reads, cache interface {
	Get(namespace, name string) (T, error)
}, namespace, name string) (found T) {
	if name == "" {
		return found
	}
	found, err := reconcile.Optional(cache.Get(namespace, name))
	r.errs = append(r.errs, err)
	return found
}

// byIndex returns the objects of an index.
func byIndex[T any](r *reads, cache interface {
	GetByIndex(index, key string) ([]T, error)
}, index, key string) []T {
	found, err := cache.GetByIndex(index, key)
	r.errs = append(r.errs, err)
	return found
}

// gather returns everything that the rule decides from.
func (h *handler) gather(request *fleet.ClusterRegistration) (grant.Input, error) {
	in := grant.Input{
		Now: h.app.Clock(), Request: request, Namespaces: h.app.Namespaces, WorkspaceDeleting: h.app.IsDeletingNamespace(request.Namespace),
		IgnoreLabels: h.app.Config.Get().IgnoreClusterRegistrationLabels, HubAddress: hubaddress.Hash(h.app.Config.Get()),
	}
	known := h.useOf(request.Namespace + "/" + request.Name)
	in.UsedBy, in.HeartbeatAsked = known.account, known.asked
	in.CredentialLifetime = h.app.Config.Get().AgentCredentialLifetime.Duration
	h.enqueue(h.queue.Put(request, h.tokenOf(request)))
	in.Queue, in.Crowded = h.queue.WaitsIn(request), h.queue.Crowded(request)
	if !grant.NeedsCluster(in) {
		return in, nil
	}
	client, r := request.Namespace+"/"+request.Spec.ClientID, &reads{}
	in.Clusters = byIndex(r, h.app.Clusters.Cache(), hub.ClustersByClientID, client)
	in.Others = byIndex(r, h.app.ClusterRegistrations.Cache(), hub.RequestsByClientID, client)
	in.Derived = get(r, h.app.Clusters.Cache(), request.Namespace, names.Cluster(request.Spec.ClientID))
	in.Named = h.named(r, in)
	in.NamedToken = get(r, h.app.ClusterRegistrationTokens.Cache(), request.Namespace, request.Labels[fleet.LabelRegistrationToken])
	if requests.IsRecovery(request) {
		if err := h.gatherRecovery(&in); err != nil {
			return in, err
		}
	}
	in.Importer = get(r, h.app.Clusters.Cache(), request.Namespace, grant.ImporterOf(request, in.NamedToken))
	in.Credential = get(r, h.app.CredentialSecrets.Cache(), h.app.Namespaces.Registration, answerTo(request))
	if grant.AnswersEarlier(in.Credential, request) {
		in.Credential = nil // it is deleted or replaced, and proves nothing about this request
	}
	in.SameAnswer = byIndex(r, h.app.ClusterRegistrations.Cache(), byAnswer, answerTo(request))
	for _, one := range in.SameAnswer {
		if uid, known := h.begun.Load(one.Namespace + "/" + one.Name); known && uid == one.UID {
			in.Begun = append(in.Begun, one.UID)
		}
	}
	in.Namesakes = slices.DeleteFunc(byIndex(r, h.app.ClusterRegistrations.Cache(), byName, request.Name),
		func(other *fleet.ClusterRegistration) bool { return other.Namespace == request.Namespace })
	if err := r.err(); err != nil {
		return in, err
	}
	cluster := grant.ClusterOf(in)
	if cluster != nil || in.Derived != nil {
		h.release(request.Namespace + "/" + request.Name) // the cache has the Cluster
	}
	if cluster == nil {
		h.gatherLimit(&in)
		return in, nil
	}
	return in, h.gatherOfCluster(&in, cluster)
}

// named returns the Cluster in the status of a request, or nil.
func (h *handler) named(r *reads, in grant.Input) *fleet.Cluster {
	workspace, name := in.Request.Namespace, in.Request.Status.ClusterName
	in.Named = get(r, h.app.Clusters.Cache(), workspace, name)
	if name == "" || in.Request.DeletionTimestamp != nil || !grant.LostCluster(in) {
		return in.Named
	}
	// The agent would lose its rights, and a new leader's cache of Clusters may be older than that of requests.
	live, err := reconcile.Optional(h.app.Clusters.Get(workspace, name, metav1.GetOptions{}))
	r.errs = append(r.errs, err)
	return live
}

// gatherLimit adds how many Clusters the token of a request has created, if the request creates one, which is then reserved.
func (h *handler) gatherLimit(in *grant.Input) {
	if in.MaxClusters = h.app.Env.MaxClustersPerToken; in.MaxClusters == 0 || !grant.CreatesWithToken(*in) {
		return
	}
	request := in.Request
	wanted := reservation{request.Namespace, grant.CreatedWith(in.NamedToken), names.Cluster(request.Spec.ClientID)}
	in.TokenClusters = h.reserved.reserve(request.Namespace+"/"+request.Name, wanted, in.MaxClusters, func() []*fleet.Cluster {
		return h.clustersOf(wanted.workspace, wanted.token)
	})
}

// gatherOfCluster adds whether the namespace of a request's Cluster is taken. If the request may have rights there, it adds
// these. If Decide needs it, it adds the account that sent the last heartbeat.
func (h *handler) gatherOfCluster(in *grant.Input, cluster *fleet.Cluster) (err error) {
	if h.app.Recoveries.Key().Public() != "" && recovery.Applies(cluster) {
		in.ReportedKey = recovery.KeyToPin(cluster)
	}
	if in.NamespaceTaken, err = h.app.NamespaceTaken(cluster); err != nil {
		return err
	}
	if in.NamedToken != nil {
		if err := h.gatherReader(in); err != nil {
			return err
		}
	}
	if cluster.Status.Namespace == "" && cluster.Labels[fleet.LabelClusterManagement] == "" {
		return nil
	}
	if err := errors.Join(h.gatherRights(in, cluster), h.gatherReader(in)); err != nil {
		return err
	}
	if grant.NeedsHeartbeatAccount(*in) {
		in.HeartbeatAccount, in.HeartbeatAsked, err = h.heartbeatAccount(cluster)
	}
	return err
}

// gatherRights adds the objects that a request has in its Cluster's namespace and for its Cluster.
func (h *handler) gatherRights(in *grant.Input, cluster *fleet.Cluster) error {
	request, namespace, registration := in.Request, clusters.NamespaceOf(cluster), h.app.Namespaces.Registration
	account, accessName, r := grant.RequestAccount(request, cluster), grant.CredentialAccessName(grant.SharedName(*in)), &reads{}
	in.Account = get(r, h.app.ServiceAccounts.Cache(), account.Namespace, account.Name)
	role := get(r, h.app.Roles.Cache(), request.Namespace, request.Name)
	status := get(r, h.app.RoleBindings.Cache(), request.Namespace, request.Name)
	work := get(r, h.app.RoleBindings.Cache(), namespace, request.Name)
	read := get(r, h.app.Roles.Cache(), registration, accessName)
	reads := get(r, h.app.RoleBindings.Cache(), registration, accessName)
	in.Imported = get(r, h.app.ClusterRegistrationTokens.Cache(), request.Namespace, names.ImportToken(cluster.Name))
	contents, contentsErr := readsContents(h.app, account)
	if request.Labels[fleet.LabelRegistrationToken] == "" && in.Imported == nil {
		var err error
		in.Tokens, err = h.app.ClusterRegistrationTokens.Cache().List(request.Namespace, labels.Everything())
		r.errs = append(r.errs, err)
	}
	in.RightsExist = role != nil && status != nil && work != nil && contents
	in.AccessExists = read != nil && reads != nil && isOf(read, request) && isOf(reads, request)
	for _, other := range byIndex(r, h.app.ClusterRegistrations.Cache(), hub.RequestsByCluster, cluster.Namespace+"/"+cluster.Name) {
		if other.Spec.ClientID != request.Spec.ClientID { // it was made for the Cluster when that had another client ID
			in.Others = append(in.Others, other)
		}
	}
	return errors.Join(r.err(), contentsErr)
}

// gatherReader adds the account for which a request has to be signed.
func (h *handler) gatherReader(in *grant.Input) error {
	token := grant.Signer(*in)
	if token == nil {
		return nil
	}
	account, err := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(token.Namespace, names.ImportAccount(token.Name, string(token.UID))))
	if account != nil {
		in.ReaderAccount = string(account.UID)
	}
	return err
}

// heartbeatAccount returns the UID of the account that sent a Cluster's last heartbeat, and the heartbeat.
func (h *handler) heartbeatAccount(cached *fleet.Cluster) (account, heartbeat string, err error) {
	cluster, err := reconcile.Optional(h.app.Clusters.Get(cached.Namespace, cached.Name, metav1.GetOptions{}))
	if err != nil {
		return "", "", fmt.Errorf("reading cluster %s/%s: %w", cached.Namespace, cached.Name, err)
	}
	if cluster == nil {
		return "", "", nil
	}
	return protocol.HeartbeatAccount(cluster), clusters.Heartbeat(cluster), nil
}

// isOf reports whether a Role or RoleBinding in the registration namespace was made for a request.
func isOf[T metav1.Object](object T, request *fleet.ClusterRegistration) bool {
	of := requestOf(object)
	return len(of) == 1 && of[0].Namespace == request.Namespace && of[0].Name == request.Name
}

// gatherRecovery adds what the hub knows about a recovery request. The token that the request may name does not count.
func (h *handler) gatherRecovery(in *grant.Input) error {
	in.NamedToken = nil
	in.Recovery = grant.Recovery{Hub: h.app.Recoveries.Key().Public(), Readmit: h.app.Config.Get().Readmits()}
	if in.Recovery.Hub == "" && !in.Request.Status.Granted {
		return fmt.Errorf("checking the proof of a recovery request: %w", recoveries.ErrPending) // without the key, no proof is valid
	}
	account, err := h.recoveryAccount(in.Request.Namespace)
	if err != nil {
		return err
	}
	if account != nil {
		in.ReaderAccount = string(account.UID)
	}
	ticket, ok := grant.TicketOf(in.Request, in.Recovery.Hub)
	if !ok || in.Request.Status.Granted {
		return nil
	}
	if in.Recovery.Named, err = reconcile.Optional(h.app.Clusters.Cache().Get(ticket.Workspace, ticket.Cluster)); err != nil {
		return err
	}
	if named := in.Recovery.Named; named != nil && named.Annotations[annotation.AgentKey] != "" {
		return nil // the ticket does not matter
	}
	in.Recovery.Deleted, err = h.app.Recoveries.IsBlocked(h.lasting, ticket)
	return err
}
