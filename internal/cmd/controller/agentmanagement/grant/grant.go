package grant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/grant/requestqueue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// maxReported is the number of Clusters for which a refused recovery is reported only once. Users of a workspace can create
// and delete any number of them.
const maxReported = 10000

type handler struct {
	app      *hub.App
	set      *reconcile.Set
	access   credentialAccess
	clusters reconcile.Kind
	prover   *accounts.Prover
	// stages measures the requests until the first use of their credential.
	stages *metrics.Stages
	// lasting is the context of requests while gathering.
	lasting context.Context //nolint:containedctx // handlers are called without a context
	// unproven are the last refusals of recovery requests that were reported.
	unproven *lru.Cache
	// queue decides which requests are processed now.
	queue *requestqueue.Queue
	// reserved are the Clusters that requests create.
	reserved reservations
	// correct maps a request to the state in which its rights were last found to be correct.
	correct sync.Map
	// used maps a request, as "<workspace>/<name>", to the use of its credential.
	used sync.Map
	// using is held while used is changed, and ending while credentials are deleted.
	using, ending sync.Mutex
	// warnForbidden logs once that credentials cannot be deleted together.
	warnForbidden func()
	// begun maps a request that this process has begun to answer to its UID.
	begun sync.Map
	// written are the requests that this process wrote and that the cache does not have yet.
	written reconcile.MutationCache[types.UID, *fleet.ClusterRegistration]
}

// Register watches ClusterRegistrations and everything that can unblock one: a namespace or heartbeat of its Cluster,
// its rights, its token, and the registration that it replaces.
func Register(ctx context.Context, a *hub.App) error {
	prover, err := accounts.NewProver(a.RESTConfig)
	if err != nil {
		return err
	}
	read := keepsWhileCredentialExists(a)
	h := &handler{
		warnForbidden: sync.OnceFunc(func() {
			a.Log.Warn("used credentials are deleted one by one: verb deletecollection is missing in ClusterRole fleet-controller; upgrade chart fleet together with its image")
		}),
		app: a, prover: prover, lasting: ctx, queue: requestqueue.New(), unproven: lru.New(maxReported), stages: metrics.NewStages(a.OwnClock, a.Metrics.Stage),
		set: reconcile.NewSet(grant.SetID,
			reconcile.KindOf(a.ServiceAccounts), reconcile.KindOf(a.Roles).Keeping(read), reconcile.KindOf(a.RoleBindings).Keeping(read),
			reconcile.ClusterKind(a.ClusterRoleBindings).Keeping(bindingsOf(a))).Parallel(),
		access:   credentialAccess{roles: reconcile.KindOf(a.Roles).Adopting(isCredentialAccess), bindings: reconcile.KindOf(a.RoleBindings).Adopting(isCredentialAccess)},
		clusters: reconcile.KindOf(a.Clusters),
	}
	a.ClusterRegistrations.OnChange(hub.Lasting(ctx), "grant", func(key string, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error) {
		return request, h.onChange(ctx, key, request)
	})
	a.CredentialSecrets.OnChange(hub.Lasting(ctx), "used-credential", func(_ string, secret *corev1.Secret) (*corev1.Secret, error) {
		return secret, h.onCredential(ctx, secret)
	})
	return errors.Join(h.watch(), h.watchLimits())
}

func gvk() schema.GroupVersionKind {
	return fleet.SchemeGroupVersion.WithKind("ClusterRegistration")
}

func (h *handler) onChange(ctx context.Context, key string, request *fleet.ClusterRegistration) error {
	if request == nil {
		return h.gone(key)
	}
	if earlier, known := h.begun.Load(key); known && earlier != request.UID { // its deletion caused no event of its own
		if err := h.gone(key); err != nil {
			return err
		}
	}
	h.written.CaughtUp(request.UID, request)
	request = h.written.Newest(request.UID, request, h.app.OwnClock())
	in, err := h.gather(request)
	if err != nil {
		return fmt.Errorf("processing registration %s/%s: %w", request.Namespace, request.Name, err)
	}
	out := grant.Decide(in)
	h.measure(in, out)
	return h.act(ctx, in, out)
}

// gone revokes what a request had that no longer exists.
func (h *handler) gone(key string) error {
	h.stages.Drop(key)
	h.correct.Delete(key)
	h.used.Delete(key)
	h.release(key)
	namespace, name, _ := cache.SplitMetaNamespaceKey(key) // keys of handlers are always well formed
	h.enqueue(h.queue.Drop(types.NamespacedName{Namespace: namespace, Name: name}))
	if err := h.revoke(reconcile.GoneOwner(gvk(), namespace, name), namespace, name); err != nil {
		return err
	}
	h.begun.Delete(key)
	return nil
}

// run is what one reconcile decides and writes.
type run struct {
	in  grant.Input
	out grant.Outcome
	// request is the request as it was last written.
	request *fleet.ClusterRegistration
	// later means that the remaining writes have to wait. The request is enqueued for them.
	later bool
}

func (r *run) key() string { return r.request.Namespace + "/" + r.request.Name }

// act writes what the outcome lists, in order.
func (h *handler) act(ctx context.Context, in grant.Input, out grant.Outcome) error {
	r := &run{in: in, out: out, request: in.Request}
	defer h.noteWritten(r)
	h.enqueueAtEnd(r.request, out)
	if in.WorkspaceDeleting && r.request.DeletionTimestamp == nil {
		h.app.ClusterRegistrations.EnqueueAfter(r.request.Namespace, r.request.Name, recreatedDelay)
	}
	h.noteUse(r)
	if len(out.CredentialAccess)+len(out.Children) > 0 {
		h.begun.Store(r.key(), r.request.UID)
	}
	var failures []error
	for _, write := range out.Writes {
		err := h.write(ctx, r, write)
		if taken := (*reconcile.TakenError)(nil); errors.As(err, &taken) {
			return h.reportTaken(r, taken)
		}
		if failures = append(failures, err); r.later || err != nil && !write.OnlyDeletes() {
			break
		}
	}
	return errors.Join(failures...)
}

// noteWritten remembers a request that was written, so that the next reconcile does not write the same again.
func (h *handler) noteWritten(r *run) {
	if r.request != r.in.Request {
		h.written.Note(r.request.UID, r.request, r.in.Request, h.app.OwnClock())
	}
}

func (h *handler) write(ctx context.Context, r *run, write grant.Write) error {
	switch write {
	case grant.RecordRecovery:
		return h.recordRecovery(r)
	case grant.CreateCluster:
		return h.createCluster(r)
	case grant.SetOwner:
		return h.setOwner(r)
	case grant.WriteRights:
		return h.writeRights(r)
	case grant.UnpinKey:
		return h.unpinKey(r)
	case grant.RecordJoin:
		return h.recordJoin(r)
	case grant.EndConfirmation:
		return h.endConfirmation(r)
	case grant.HandOut:
		return h.handOut(ctx, r)
	case grant.WriteStatus:
		return h.writeStatus(r)
	}
	return h.remove(r, write)
}

// remove does the writes that remove something.
func (h *handler) remove(r *run, write grant.Write) error {
	switch write {
	case grant.RemoveFinalizers:
		return h.removeFinalizers(r)
	case grant.DeleteUnproven:
		return h.deleteUnproven(r)
	case grant.DeleteRequest:
		return h.deleteRequest(r.request)
	case grant.Revoke:
		return h.revoke(reconcile.OwnerOf(gvk(), r.request), r.request.Namespace, r.request.Name)
	case grant.RemoveCredentialAccess:
		return h.removeCredentialAccess(types.NamespacedName{Namespace: r.request.Namespace, Name: r.request.Name})
	case grant.RetireCredential: // onCredential deletes it
		h.app.CredentialSecrets.EnqueueAfter(r.in.Credential.Namespace, r.in.Credential.Name, endDelay)
		return nil
	case grant.DeleteSuperseded:
		return h.deleteSuperseded(r)
	}
	return fmt.Errorf("registration %s: unknown write %s", r.key(), write)
}

func (h *handler) removeFinalizers(r *run) error {
	h.app.Log.Info("finalizers of a deleted registration removed", "registration", r.key())
	_, err := reconcile.Update(h.app.ClusterRegistrations, r.request, func(r *fleet.ClusterRegistration) { r.Finalizers = nil })
	return err
}

func (h *handler) deleteRequest(request *fleet.ClusterRegistration) error {
	h.app.Log.Info("registration deleted, no agent waits for it", "registration", request.Namespace+"/"+request.Name)
	if err := reconcile.Delete(h.app.ClusterRegistrations, request); err != nil {
		return fmt.Errorf("deleting registration %s/%s: %w", request.Namespace, request.Name, err)
	}
	return nil
}

// createCluster creates the Cluster of a client that does not have one. The Cluster's appearance enqueues the request;
// something else may enqueue it earlier. The right to read the answer is written at the same time, so that the agent
// can wait for it.
func (h *handler) createCluster(r *run) error {
	wanted, created := r.out.CreateCluster, false
	err := atOnce(func() error { return h.access.write(r.out.CredentialAccess) }, func() (err error) {
		if created, err = h.clusters.CreateOnce(wanted); err != nil {
			return fmt.Errorf("creating the cluster of registration %s: %w", r.key(), err)
		}
		return nil
	})
	if created {
		h.app.Log.Info("cluster created for its agent", "cluster", wanted.Namespace+"/"+wanted.Name)
	}
	return err
}

// atOnce runs two functions at the same time.
func atOnce(one, other func() error) error {
	var oneErr error
	var running sync.WaitGroup
	running.Go(func() { oneErr = one() })
	err := other()
	running.Wait()
	return errors.Join(oneErr, err)
}

// setOwner makes the Cluster the request's only owner.
func (h *handler) setOwner(r *run) (err error) {
	if err := h.checkOwner(r); err != nil {
		return err
	}
	own := r.out.Own
	r.request, err = reconcile.Update(h.app.ClusterRegistrations, r.request, func(r *fleet.ClusterRegistration) {
		r.OwnerReferences = []metav1.OwnerReference{own.Owner}
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, annotation.LastSeenAtGrant, own.LastSeen) // "" if there was no heartbeat
		objects.Annotate(r, annotation.TokenUIDAtGrant, own.TokenUID)
		objects.Annotate(r, annotation.AgentKeyAtGrant, own.Key)
		objects.Annotate(r, annotation.ReplacesKey, own.ReplacesKey)
		objects.Annotate(r, annotation.LifetimeAtGrant, own.Lifetime)
		if own.HubAddress != "" {
			r.Annotations[annotation.HubAddressAtGrant] = own.HubAddress
		}
	})
	return err
}

// checkOwner reads a Cluster that is older than the request again and fails if it does not exist. After the hub was restored
// from an older state, the cache may contain such a Cluster for a minute, and its namespace may have been created again.
// The garbage collector would delete the request, and its agent would wait half an hour for the answer.
func (h *handler) checkOwner(r *run) error {
	cached := grant.ClusterOf(r.in)
	if !cached.CreationTimestamp.Before(&r.request.CreationTimestamp) {
		return nil
	}
	live, err := reconcile.Optional(h.app.Clusters.Get(cached.Namespace, cached.Name, metav1.GetOptions{}))
	if err == nil && (live == nil || live.UID != cached.UID) {
		err = fmt.Errorf("waiting for the cache: Cluster %s/%s with UID %s does not exist", cached.Namespace, cached.Name, cached.UID)
	}
	if err != nil {
		return fmt.Errorf("making the Cluster the owner of registration %s: %w", r.key(), err)
	}
	return nil
}

// unpinKey removes the key of an agent that is replaced from its Cluster.
func (h *handler) unpinKey(r *run) error {
	return h.writeKey(r, func(c *fleet.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation.ReplacedKey, grant.ClusterOf(r.in).Annotations[annotation.AgentKey])
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation.TicketsSince, r.in.Now.UTC().Format(time.RFC3339))
		delete(c.Annotations, annotation.AgentKey)
	})
}

// recordJoin pins the key of an agent on its Cluster, with the token that the agent joined with.
func (h *handler) recordJoin(r *run) error {
	join := r.out.Join
	return h.writeKey(r, func(c *fleet.Cluster) {
		if join.Key == c.Annotations[annotation.BlockedKey] {
			return // blocked since the cluster was read
		}
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation.AgentKey, join.Key)
		if join.TokenUID != "" {
			metav1.SetMetaDataLabel(&c.ObjectMeta, fleet.LabelTokenUID, join.TokenUID)
		}
	})
}

func (h *handler) writeKey(r *run, change func(*fleet.Cluster)) error {
	cluster := grant.ClusterOf(r.in)
	_, err := reconcile.Patch(h.app.Clusters, cluster, change)
	if err != nil {
		return fmt.Errorf("writing the agent's key to Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.app.Log.Info("agent key written", "cluster", cluster.Namespace+"/"+cluster.Name, "registration", r.key(), "pinned", r.out.Join != nil)
	return nil
}

// endConfirmation removes the confirmation of an answered request.
func (h *handler) endConfirmation(r *run) error {
	cluster := grant.ClusterOf(r.in)
	_, err := reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if c.Annotations[annotation.ConfirmTakeover] == r.request.Name {
			delete(c.Annotations, annotation.ConfirmTakeover)
		}
	})
	if err != nil {
		return fmt.Errorf("removing the confirmation from Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

// deleteSuperseded deletes the older requests of a client that has reported with its new credential.
func (h *handler) deleteSuperseded(r *run) error {
	namespace := r.request.Namespace
	failures := []error{h.forgetIdentity(grant.ClusterOf(r.in))}
	for _, name := range r.out.Superseded {
		h.app.Log.Info("registration superseded", "registration", namespace+"/"+name)
		err := h.app.ClusterRegistrations.Delete(namespace, name, &metav1.DeleteOptions{})
		if err == nil {
			h.app.Metrics.Registration(metrics.OutcomeSuperseded)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("deleting superseded registration %s/%s: %w", namespace, name, err))
		}
	}
	return errors.Join(failures...)
}

// forgetIdentity forgets the UID that is recorded for a Cluster without a kubeconfig: its agent may run in another cluster now. The
// former cluster could otherwise not be registered for Cluster API. An import records a UID again whenever it finds this agent. The
// import controller writes the change into the record with the next heartbeat.
func (h *handler) forgetIdentity(cluster *fleet.Cluster) error {
	if cluster == nil || cluster.Spec.KubeConfigSecret != "" {
		return nil
	}
	uid, err := h.app.Identities.Of(cluster)
	if err == nil && uid != "" {
		h.app.Identities.Note(cluster, "")
	}
	return err
}
