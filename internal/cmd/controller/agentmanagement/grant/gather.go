package grant

import (
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

// live reads a Cluster from the API server. It returns nil if the Cluster does not exist.
func (h *handler) live(r *reconcile.Reads, namespace, name string) (found *fleet.Cluster) {
	if r.Err != nil {
		return nil
	}
	if found, r.Err = reconcile.Optional(h.app.Clusters.Get(namespace, name, metav1.GetOptions{})); r.Err != nil {
		r.Err = fmt.Errorf("reading cluster %s/%s: %w", namespace, name, r.Err)
	}
	return found
}

// gather returns everything that the rule decides from.
func (h *handler) gather(request *fleet.ClusterRegistration) (grant.Input, error) {
	in := h.gatherOwn(request)
	if !grant.NeedsCluster(in) {
		return in, nil
	}
	r := &reconcile.Reads{}
	h.gatherClusters(r, &in)
	h.gatherAnswer(r, &in)
	if requests.IsRecovery(request) {
		h.gatherRecovery(r, &in)
	}
	if r.Err != nil {
		return in, r.Err
	}
	cluster := grant.ClusterOf(in)
	if cluster != nil || in.Derived != nil {
		h.release(request.Namespace + "/" + request.Name) // the cache has the Cluster
	}
	if cluster != nil {
		h.gatherOfCluster(r, &in, cluster)
	} else {
		h.gatherLimit(&in)
	}
	return in, r.Err
}

// gatherOwn returns what does not depend on other objects: the configuration, and what this process knows about a request.
func (h *handler) gatherOwn(request *fleet.ClusterRegistration) grant.Input {
	conf, known := h.app.Config.Get(), h.useOf(request.Namespace+"/"+request.Name)
	h.enqueue(h.queue.Put(request, h.tokenOf(request)))
	return grant.Input{
		Now: h.app.Clock(), Request: request, Namespaces: h.app.Namespaces, WorkspaceDeleting: h.app.IsDeletingNamespace(request.Namespace),
		IgnoreLabels: conf.IgnoreClusterRegistrationLabels, HubAddress: hubaddress.Hash(conf), CredentialLifetime: conf.AgentCredentialLifetime.Duration,
		UsedBy: known.account, HeartbeatAsked: known.asked, Queue: h.queue.WaitsIn(request), Crowded: h.queue.Crowded(request),
	}
}

// gatherClusters adds the Clusters that may be the request's, the token that it names, and the other requests of its client.
func (h *handler) gatherClusters(r *reconcile.Reads, in *grant.Input) {
	request, cached := in.Request, h.app.Clusters.Cache()
	client := request.Namespace + "/" + request.Spec.ClientID
	in.Clusters = reconcile.ByIndex(r, cached, hub.ClustersByClientID, client)
	in.Others = reconcile.ByIndex(r, h.app.ClusterRegistrations.Cache(), hub.RequestsByClientID, client)
	in.Derived = reconcile.Get(r, cached, request.Namespace, names.Cluster(request.Spec.ClientID))
	in.Named = reconcile.Get(r, cached, request.Namespace, request.Status.ClusterName)
	if request.Status.ClusterName != "" && request.DeletionTimestamp == nil && grant.LostCluster(*in) {
		// The agent would lose its rights, and a new leader's cache of Clusters may be older than that of requests.
		in.Named = h.live(r, request.Namespace, request.Status.ClusterName)
	}
	if !requests.IsRecovery(request) { // the token that such a request may name does not count
		in.NamedToken = reconcile.Get(r, h.app.ClusterRegistrationTokens.Cache(), request.Namespace, request.Labels[fleet.LabelRegistrationToken])
	}
	in.Importer = reconcile.Get(r, cached, request.Namespace, grant.ImporterOf(request, in.NamedToken))
}

// gatherAnswer adds the Secret that answers the request, and other requests that could use it or the same names.
func (h *handler) gatherAnswer(r *reconcile.Reads, in *grant.Input) {
	request, cached := in.Request, h.app.ClusterRegistrations.Cache()
	in.Credential = reconcile.Get(r, h.app.CredentialSecrets.Cache(), h.app.Namespaces.Registration, answerTo(request))
	if grant.AnswersEarlier(in.Credential, request) {
		in.Credential = nil // it is deleted or replaced, and proves nothing about this request
	}
	in.SameAnswer = reconcile.ByIndex(r, cached, byAnswer, answerTo(request))
	for _, one := range in.SameAnswer {
		if uid, known := h.begun.Load(one.Namespace + "/" + one.Name); known && uid == one.UID {
			in.Begun = append(in.Begun, one.UID)
		}
	}
	in.Namesakes = slices.DeleteFunc(reconcile.ByIndex(r, cached, byName, request.Name),
		func(other *fleet.ClusterRegistration) bool { return other.Namespace == request.Namespace })
}

// gatherRecovery adds what the hub knows about a recovery request.
func (h *handler) gatherRecovery(r *reconcile.Reads, in *grant.Input) {
	in.Recovery = grant.Recovery{Hub: h.app.Recoveries.Key().Public(), Readmit: h.app.Config.Get().Readmits()}
	if in.Recovery.Hub == "" && !in.Request.Status.Granted && r.Err == nil { // without the key, no proof is valid
		r.Err = fmt.Errorf("checking the proof of a recovery request: %w", recoveries.ErrPending)
	}
	if account := reconcile.Get(r, h.app.ServiceAccounts.Cache(), in.Request.Namespace, names.Recovery); recoveries.IsAccount(account) {
		in.ReaderAccount = string(account.UID)
	}
	ticket, ok := grant.TicketOf(in.Request, in.Recovery.Hub)
	if !ok || in.Request.Status.Granted {
		return
	}
	in.Recovery.Named = reconcile.Get(r, h.app.Clusters.Cache(), ticket.Workspace, ticket.Cluster)
	if named := in.Recovery.Named; r.Err == nil && (named == nil || named.Annotations[annotation.AgentKey] == "") { // else the ticket does not matter
		in.Recovery.Deleted, r.Err = h.app.Recoveries.IsBlocked(h.lasting, ticket)
	}
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

// gatherOfCluster adds what belongs to the request's Cluster, the rights of the request if it may have any, and the account
// that has to sign the request. If Decide needs it, it adds the account that sent the last heartbeat.
func (h *handler) gatherOfCluster(r *reconcile.Reads, in *grant.Input, cluster *fleet.Cluster) {
	if h.app.Recoveries.Key().Public() != "" && recovery.Applies(cluster) {
		in.ReportedKey = recovery.KeyToPin(cluster)
	}
	in.NamespaceTaken, r.Err = h.app.NamespaceTaken(cluster)
	if cluster.Status.Namespace != "" || cluster.Labels[fleet.LabelClusterManagement] != "" {
		h.gatherRights(r, in, cluster)
		h.gatherRelated(r, in, cluster)
	}
	if token := grant.Signer(*in); token != nil {
		if account := reconcile.Get(r, h.app.ServiceAccounts.Cache(), token.Namespace, names.ImportAccount(token.Name, string(token.UID))); account != nil {
			in.ReaderAccount = string(account.UID)
		}
	}
	if r.Err != nil || !grant.NeedsHeartbeatAccount(*in) {
		return
	}
	if live := h.live(r, cluster.Namespace, cluster.Name); live != nil {
		in.HeartbeatAccount, in.HeartbeatAsked = protocol.HeartbeatAccount(live), clusters.Heartbeat(live)
	}
}

// gatherRights adds the objects that a request has in its Cluster's namespace and for its Cluster.
func (h *handler) gatherRights(r *reconcile.Reads, in *grant.Input, cluster *fleet.Cluster) {
	request, roles, bindings := in.Request, h.app.Roles.Cache(), h.app.RoleBindings.Cache()
	account, accessName := grant.RequestAccount(request, cluster), grant.CredentialAccessName(grant.SharedName(*in))
	in.Account = reconcile.Get(r, h.app.ServiceAccounts.Cache(), account.Namespace, account.Name)
	role := reconcile.Get(r, roles, request.Namespace, request.Name)
	status := reconcile.Get(r, bindings, request.Namespace, request.Name)
	work := reconcile.Get(r, bindings, account.Namespace, request.Name)
	read := reconcile.Get(r, roles, h.app.Namespaces.Registration, accessName)
	reads := reconcile.Get(r, bindings, h.app.Namespaces.Registration, accessName)
	in.AccessExists = read != nil && reads != nil && isOf(read, request) && isOf(reads, request)
	if r.Err == nil {
		in.RightsExist, r.Err = readsContents(h.app, account)
	}
	in.RightsExist = in.RightsExist && role != nil && status != nil && work != nil
}

// gatherRelated adds the tokens of the workspace that a request without a token may have used, and the requests that were
// made for its Cluster when that had another client ID.
func (h *handler) gatherRelated(r *reconcile.Reads, in *grant.Input, cluster *fleet.Cluster) {
	request, tokens := in.Request, h.app.ClusterRegistrationTokens.Cache()
	in.Imported = reconcile.Get(r, tokens, request.Namespace, names.ImportToken(cluster.Name))
	if request.Labels[fleet.LabelRegistrationToken] == "" && in.Imported == nil && r.Err == nil {
		in.Tokens, r.Err = tokens.List(request.Namespace, labels.Everything())
	}
	for _, other := range reconcile.ByIndex(r, h.app.ClusterRegistrations.Cache(), hub.RequestsByCluster, cluster.Namespace+"/"+cluster.Name) {
		if other.Spec.ClientID != request.Spec.ClientID {
			in.Others = append(in.Others, other)
		}
	}
}

// isOf reports whether a Role or RoleBinding in the registration namespace was made for a request.
func isOf[T metav1.Object](object T, request *fleet.ClusterRegistration) bool {
	of := requestOf(object)
	return len(of) == 1 && of[0].Namespace == request.Namespace && of[0].Name == request.Name
}
