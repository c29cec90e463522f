// Package grant answers ClusterRegistrations. It finds or creates the Cluster, creates an account for the agent in
// the cluster's namespace, and writes the account's token to a credential Secret. Only the account that the agent
// registers with can read this Secret.
//
//	ClusterRegistration ─► Cluster ─► Namespace ─► ServiceAccount ─► rights ─► credential Secret
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

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Time until the next attempt to hand out a credential.
const (
	// notInForceDelay is for rights that were written but that the API server does not apply yet. notInForceSoon
	// after the request was created, something is probably wrong with them, and notInForceLate is used instead.
	notInForceDelay = 25 * time.Millisecond
	notInForceSoon  = 10 * time.Second
	notInForceLate  = 2 * time.Second
	// pendingDelay is for a token Secret without a token yet.
	pendingDelay = 500 * time.Millisecond
	// takenDelay is for a right whose name another object has.
	takenDelay = 15 * time.Second
	// noticeable is how long a request waits before its status says what for. Most are granted long before.
	noticeable = 10 * time.Second
)

// errAnswersAnother means that the credential Secret answers another request.
var errAnswersAnother = errors.New("the credential is the answer to another request")

// liveness reports which agents are considered gone.
type liveness interface {
	Stale(cluster types.NamespacedName) bool
	OnChange(func(cluster types.NamespacedName))
}

type handler struct {
	app      *hub.Context
	liveness liveness
	set      *reconcile.Set
	readers  readers
	clusters reconcile.Kind
	prover   *accounts.Prover
	// way measures the requests until the first use of their credential.
	way *metrics.Stages
	// turns decides which requests are processed now.
	turns *turns
	// settled maps a request to the state in which its rights were last found to be correct.
	settled sync.Map
}

// Register watches ClusterRegistrations and everything that can unblock one: a namespace or heartbeat of its Cluster,
// its rights, its token, and the end of the agent that it replaces.
func Register(ctx context.Context, a *hub.Context) error {
	return register(ctx, a, a.Liveness)
}

func register(ctx context.Context, a *hub.Context, liveness liveness) error {
	prover, err := accounts.NewProver(a.RESTConfig)
	if err != nil {
		return err
	}
	read := readersOf(a)
	h := &handler{
		app: a, liveness: liveness, prover: prover, turns: newTurns(), way: metrics.NewStages(a.Clock, a.Metrics.Stage),
		set: reconcile.NewSet(grant.SetID,
			reconcile.KindOf(a.ServiceAccounts), reconcile.KindOf(a.Roles).Sparing(read), reconcile.KindOf(a.RoleBindings).Sparing(read),
			reconcile.ClusterKind(a.ClusterRoleBindings).Sparing(bindingsOf(a))).InWaves(),
		readers:  readers{roles: reconcile.KindOf(a.Roles).Adopting(isReader), bindings: reconcile.KindOf(a.RoleBindings).Adopting(isReader)},
		clusters: reconcile.KindOf(a.Clusters),
	}
	a.ClusterRegistrations.OnChange(hub.Lasting(ctx), "grant", func(key string, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error) {
		return request, h.onChange(ctx, key, request)
	})
	return errors.Join(h.watch(), h.watchLimits())
}

func gvk() schema.GroupVersionKind {
	return fleet.SchemeGroupVersion.WithKind("ClusterRegistration")
}

func (h *handler) onChange(ctx context.Context, key string, request *fleet.ClusterRegistration) error {
	if request == nil {
		h.way.Drop(key)
		h.settled.Delete(key)
		namespace, name, _ := cache.SplitMetaNamespaceKey(key) // keys of handlers are always well formed
		h.wake(h.turns.drop(types.NamespacedName{Namespace: namespace, Name: name}))
		return h.revoke(reconcile.GoneOwner(gvk(), namespace, name), namespace, name)
	}
	if done, err := h.expire(request); done {
		return err
	}
	h.wake(h.turns.put(request, h.tokenOf(request)))
	if h.app.Leaves(request.Namespace) {
		return h.revoke(reconcile.OwnerOf(gvk(), request), request.Namespace, request.Name) // deleted with its workspace
	}
	if waits, ofClient := h.turns.waits(request); waits {
		return h.inLine(request, ofClient)
	}
	in, err := h.gather(request)
	if err != nil {
		return fmt.Errorf("processing registration %s/%s: %w", request.Namespace, request.Name, err)
	}
	out := grant.Decide(in)
	if len(out.Superseded) > 0 { // Superseded needs the account of the last heartbeat, which no cache contains
		if in.Speaker, err = h.speaker(in); err != nil {
			return err
		}
		out = grant.Decide(in)
	}
	h.follow(in, out)
	return h.act(ctx, in, out)
}

func (h *handler) act(ctx context.Context, in grant.Input, out grant.Outcome) error {
	request := in.Request
	switch out.Stage {
	case grant.Leaving:
		return h.revoke(reconcile.OwnerOf(gvk(), request), request.Namespace, request.Name)
	case grant.Abandoned:
		return h.abandon(request)
	case grant.Rejected:
		// The right to read is granted early, before it is known which request is answered.
		dropped := h.dropReader(types.NamespacedName{Namespace: request.Namespace, Name: request.Name})
		return errors.Join(dropped, h.reject(request, out))
	case grant.ManagedElsewhere:
		return h.refuse(request, out)
	case grant.TakeoverPending:
		return h.pend(in, out)
	case grant.AwaitingCluster:
		return h.create(in, out)
	}
	return h.give(ctx, in, out)
}

// refuse grants nothing to a request whose Cluster another manager owns. It revokes an existing grant unless that may
// stay.
func (h *handler) refuse(request *fleet.ClusterRegistration, out grant.Outcome) error {
	if out.Granted {
		_, err := h.report(request, out)
		return err
	}
	return errors.Join(h.revoke(reconcile.OwnerOf(gvk(), request), request.Namespace, request.Name), h.reject(request, out))
}

// create creates the Cluster of a client that does not have one. The Cluster's appearance enqueues the request;
// something else may enqueue it earlier. The right to read the answer is written at the same time, so that the agent
// can wait for it.
func (h *handler) create(in grant.Input, out grant.Outcome) error {
	request := in.Request
	var readErr error
	var read sync.WaitGroup
	read.Go(func() { readErr = h.readers.letRead(out.Reader) })
	made, err := h.clusters.CreateOnce(out.CreateCluster)
	read.Wait()
	if err != nil {
		err = fmt.Errorf("creating the cluster of registration %s/%s: %w", request.Namespace, request.Name, err)
	}
	if err = errors.Join(readErr, err); err != nil {
		return h.taken(in, err)
	}
	if made {
		h.app.Log.Info("cluster created for its agent", "cluster", out.CreateCluster.Namespace+"/"+out.CreateCluster.Name)
	}
	_, err = h.report(request, out)
	return err
}

// give grants a request as far as possible now. It writes the status only once, at the end.
func (h *handler) give(ctx context.Context, in grant.Input, out grant.Outcome) error {
	var readErr error
	var read sync.WaitGroup
	if len(out.Children) == 0 { // nothing else to write while the namespace is awaited
		read.Go(func() { readErr = h.readers.letRead(out.Reader) })
	}
	request, err := h.ownAndGive(in, out)
	read.Wait()
	if err = errors.Join(err, readErr); err != nil {
		return h.taken(in, err)
	}
	if out.Stage == grant.AwaitingRights {
		h.awaitContents(in)
	}
	if out.Mint != nil {
		again, err := h.answer(ctx, request, out)
		if err != nil {
			return err
		}
		if again > 0 {
			h.app.ClusterRegistrations.EnqueueAfter(request.Namespace, request.Name, again)
			return h.reportDelay(request, out)
		}
	}
	_, err = h.report(request, out)
	return errors.Join(h.supersede(request.Namespace, out.Superseded), err)
}

// taken reports that another object has the name of one of a request's rights. It returns any other error. The
// request is retried after takenDelay, because deleting that object does not enqueue it.
func (h *handler) taken(in grant.Input, err error) error {
	var taken *reconcile.TakenError
	if !errors.As(err, &taken) {
		return err
	}
	out := grant.RightsTaken(in, taken.What(), taken.Remedy())
	if out.Stage == grant.Abandoned {
		return h.abandon(in.Request)
	}
	h.app.ClusterRegistrations.EnqueueAfter(in.Request.Namespace, in.Request.Name, takenDelay)
	_, err = h.report(in.Request, out)
	return err
}

// ownAndGive makes the Cluster the request's owner and writes the account's rights. A request whose owner is gone is
// garbage-collected; its agent does not notice, and creates another request only after half an hour. The Cluster may
// exist only in the cache, for example after the hub was restored from an older state. So a new request gets its
// owner only after its rights could be written to the Cluster's namespace, which is deleted with the Cluster. A
// granted request first records the heartbeat, before its account is created again.
func (h *handler) ownAndGive(in grant.Input, out grant.Outcome) (*fleet.ClusterRegistration, error) {
	if len(out.Children) > 0 && !in.Request.Status.Granted {
		if err := h.giveRights(in, in.Request, out); err != nil {
			return in.Request, err
		}
		return h.own(in.Request, out.Own)
	}
	request, err := h.own(in.Request, out.Own)
	if err != nil {
		return request, err
	}
	if request, err = h.recordAccountReplaced(in, request, out); err != nil {
		return request, err
	}
	return request, h.giveRights(in, request, out)
}

// own makes the Cluster the request's only owner.
func (h *handler) own(request *fleet.ClusterRegistration, own *grant.Ownership) (*fleet.ClusterRegistration, error) {
	if own == nil {
		return request, nil
	}
	return reconcile.Update(h.app.ClusterRegistrations, request, func(r *fleet.ClusterRegistration) {
		r.OwnerReferences = []metav1.OwnerReference{own.Owner}
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[fleet.AnnotationLastSeenAtGrant] = own.LastSeen
		delete(r.Annotations, fleet.AnnotationTokenUIDAtGrant)
		if own.TokenUID != "" {
			r.Annotations[fleet.AnnotationTokenUIDAtGrant] = own.TokenUID
		}
		if own.HubAddress != "" {
			r.Annotations[fleet.AnnotationHubAddressAtGrant] = own.HubAddress
		}
	})
}

// giveRights writes the account's rights and, at the same time, the right to read the answer. If nothing has changed
// since the rights were last found to be correct, as with most heartbeats, it does not compare them again.
func (h *handler) giveRights(in grant.Input, request *fleet.ClusterRegistration, out grant.Outcome) error {
	if len(out.Children) == 0 {
		return nil
	}
	owner, key := reconcile.OwnerOf(gvk(), request), request.Namespace+"/"+request.Name
	found, err := h.rightsOf(owner, in)
	if err != nil {
		return err
	}
	if out.Stage == grant.AwaitingRights {
		h.settled.Delete(key) // once they exist, older ones may be deleted
	}
	if before, known := h.settled.Load(key); known && before == found {
		return h.readers.letRead(out.Reader)
	}
	var readErr error
	var read sync.WaitGroup
	read.Go(func() { readErr = h.readers.letRead(out.Reader) })
	err = h.set.Apply(owner, out.Children...)
	read.Wait()
	if err = errors.Join(err, readErr); err != nil {
		return fmt.Errorf("writing the rights of registration %s: %w", key, err)
	}
	if out.Stage != grant.AwaitingRights {
		h.settled.Store(key, found)
	}
	return nil
}

// rights identifies a state of a request's rights in the caches, and of the values that they are derived from.
type rights struct {
	versions           uint64
	cluster, namespace string
	credential         bool
}

func (h *handler) rightsOf(owner reconcile.Owner, in grant.Input) (rights, error) {
	cluster := grant.ClusterOf(in)
	versions, err := h.set.Versions(owner)
	return rights{versions, cluster.Name, cluster.Status.Namespace, in.Credential != nil}, err
}

// answer hands out the credential. This is the last step, and is done only once the token can be used, because an
// agent whose token is refused registers again. If it is too early, answer returns the time until the next attempt.
func (h *handler) answer(ctx context.Context, request *fleet.ClusterRegistration, out grant.Outcome) (again time.Duration, err error) {
	token, err := accounts.Mint(ctx, h.app.Kube, out.Mint.Namespace, out.Mint.Account, out.Mint.Lifetime)
	if errors.Is(err, accounts.ErrTokenPending) {
		return pendingDelay, nil
	}
	if err != nil {
		return 0, err
	}
	work := "apis/" + fleet.SchemeGroupVersion.String() + "/namespaces/" + out.Credential.DeploymentNamespace + "/bundledeployments"
	if err := h.prover.List(ctx, token, work); errors.Is(err, accounts.ErrNotInForce) {
		if h.waited(request) > notInForceSoon {
			return notInForceLate, nil
		}
		return notInForceDelay, nil
	} else if err != nil {
		return 0, err
	}
	out.Credential.Token = token
	if err := h.write(grant.CredentialSecret(request, h.app.Namespaces.Registration, out.Credential)); err != nil {
		return 0, fmt.Errorf("writing the credential of registration %s/%s: %w", request.Namespace, request.Name, err)
	}
	h.tellGranted(request, out)
	return 0, nil
}

// write creates the credential Secret, or updates it if its token does not work.
func (h *handler) write(secret *corev1.Secret) error {
	_, err := h.app.CredentialSecrets.Create(secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	live, err := h.app.CredentialSecrets.Get(secret.Namespace, secret.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if others := requestOf(live); len(others) > 0 && others[0] != requestOf(secret)[0] {
		return errAnswersAnother // the cache will soon show the same
	}
	live = live.DeepCopy()
	live.Data, live.Labels, live.Annotations = secret.Data, secret.Labels, secret.Annotations
	_, err = h.app.CredentialSecrets.Update(live)
	return err
}

// abandon deletes a request that no agent waits for. Garbage collection and revoke delete its objects.
func (h *handler) abandon(request *fleet.ClusterRegistration) error {
	h.app.Log.Info("registration deleted, no agent waits for it", "registration", request.Namespace+"/"+request.Name)
	err := h.app.ClusterRegistrations.Delete(request.Namespace, request.Name, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &request.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting registration %s/%s: %w", request.Namespace, request.Name, err)
	}
	return nil
}

// supersede deletes the older requests of a client that has reported with its new credential.
func (h *handler) supersede(namespace string, older []string) error {
	var failures []error
	for _, name := range older {
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
