package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/recovery"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// keyTimeout limits one attempt to load the hub's key, keyRetry is the time between two attempts.
	keyTimeout, keyRetry = 10 * time.Second, 30 * time.Second
	// pendingSoon is the time until the controller-manager has filled a new token Secret. After pendingLong something is
	// probably wrong with it, and pendingLate is used instead.
	pendingSoon, pendingLong, pendingLate = time.Second, time.Minute, 5 * time.Minute
	// pruneInterval is the time between two searches for blocked tickets that have expired, pruneTimeout limits each.
	pruneInterval, pruneJitter, pruneTimeout = 6 * time.Hour, 0.5, 5 * time.Minute
	// dataSetID is the set of the Secret with the recovery data of a Cluster. Changing it orphans them.
	dataSetID = "fleet-recovery-data"
)

// reasonUnavailable is the reason of the Event about an object that has the name of one of ours.
const reasonUnavailable = "RecoveryUnavailable"

type handler struct {
	app *hub.App
	// accounts are the objects of workspaces, data those of Clusters.
	accounts, data *reconcile.Set
	// tokens maps a workspace to the UID of the account whose token Secret exists. reported are the problems that were
	// reported.
	tokens, reported sync.Map
	// secrets are the Secrets with recovery data.
	secrets reconcile.Kind
	// toPin maps a Cluster, as "<workspace>/<name>", to the time when its agent's key is pinned.
	toPin sync.Map
	// compared maps a workspace to the state in which its account and rights were last compared with the desired ones. All
	// Clusters of a workspace have the same ones.
	compared sync.Map
	// applying is held while an account and its rights are compared and written.
	applying sync.Mutex
	// workspaces are the names of the namespaces that have or had a recovery account.
	workspaces sync.Map
}

// compared is a workspace and the versions of its recovery account and rights.
type compared struct {
	workspace types.UID
	versions  uint64
}

// Register watches Clusters, their recovery Secrets, and the recovery accounts.
func Register(ctx context.Context, a *hub.App) error {
	secrets := reconcile.KindOf(a.RecoverySecrets)
	h := &handler{
		app:      a,
		accounts: reconcile.NewSet(recoveries.SetID, reconcile.KindOf(a.ServiceAccounts), reconcile.KindOf(a.Roles), reconcile.KindOf(a.RoleBindings)).Parallel(),
		data:     reconcile.NewSet(dataSetID, secrets),
		secrets:  secrets,
	}
	a.BeforeControllers(h.loadKey)
	a.BeforeControllers(func(ctx context.Context) {
		go wait.JitterUntilWithContext(ctx, h.prune, pruneInterval, pruneJitter, true)
	})
	a.Clusters.OnChange(hub.Lasting(ctx), "recovery", func(key string, cluster *fleet.Cluster) (*fleet.Cluster, error) {
		if cluster == nil {
			h.toPin.Delete(key)
		}
		return h.onCluster(ctx, cluster)
	})
	a.AllNamespaces.OnChange(hub.Lasting(ctx), "recovery-workspace", func(name string, namespace *corev1.Namespace) (*corev1.Namespace, error) {
		return namespace, h.onNamespace(ctx, name, namespace)
	})
	return errors.Join(h.accounts.Watch(h.enqueueOne), h.data.Watch(reconcile.Enqueue(a.Clusters)))
}

// onNamespace makes the tickets of a workspace invalid that is being deleted or gone. Its recovery account may be gone
// before.
func (h *handler) onNamespace(ctx context.Context, name string, namespace *corev1.Namespace) error {
	account, err := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(name, names.Recovery))
	if err != nil {
		return err
	}
	if namespace == nil {
		h.compared.Delete(name)
	}
	_, known := h.workspaces.Load(name)
	if !known && !recoveries.IsAccount(account) {
		return nil
	}
	h.workspaces.Store(name, true)
	if namespace != nil && namespace.DeletionTimestamp == nil {
		return nil
	}
	if err := h.app.Recoveries.BlockAll(ctx, name); err != nil {
		return err
	}
	if namespace == nil {
		h.workspaces.Delete(name)
		h.tokens.Delete(name)
		h.app.Recoveries.Forget(name)
	}
	return nil
}

// loadKey loads the hub's key before the controllers start. If that fails, it tries again in the background: agents can
// register without it.
func (h *handler) loadKey(ctx context.Context) {
	if h.tryKey(ctx) {
		return
	}
	go func() {
		_ = wait.PollUntilContextCancel(ctx, keyRetry, false, func(ctx context.Context) (bool, error) { return h.tryKey(ctx), nil })
		h.enqueueAll()
	}()
}

func (h *handler) tryKey(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	err := h.app.Recoveries.LoadKey(ctx)
	if err != nil {
		h.app.Log.Error("the hub's key cannot be loaded, so agents that lose their credential cannot return by themselves; if the Secret is damaged, restore it from a backup; without a backup, delete it: the hub then creates a new key, existing tickets become invalid, and agents that lose their credential before they have read the new key need: fleet repair CLUSTER -n WORKSPACE",
			"secret", h.app.Namespaces.System+"/"+names.HubKey, "error", err)
	}
	return err == nil
}

// prune deletes blocked tickets that have expired.
func (h *handler) prune(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	if err := h.app.Recoveries.Prune(ctx); err != nil && ctx.Err() == nil {
		h.app.Log.Warn("deleting expired records of deleted Clusters failed; it is tried again in some hours", "error", err)
	}
}

// enqueueAll enqueues all Clusters.
func (h *handler) enqueueAll() {
	all, err := h.app.Clusters.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return // only a cache that has not started
	}
	for _, cluster := range all {
		reconcile.Enqueue(h.app.Clusters)(reconcile.KeyOf(cluster))
	}
}

// enqueueOne enqueues a Cluster of a workspace whose recovery account changed: one for which the account is kept.
func (h *handler) enqueueOne(workspace types.NamespacedName) {
	found, err := h.app.Clusters.Cache().List(workspace.Name, labels.Everything())
	if err != nil {
		return // only a cache that has not started
	}
	if i := slices.IndexFunc(found, recovery.Applies); i >= 0 {
		reconcile.Enqueue(h.app.Clusters)(reconcile.KeyOf(found[i]))
	}
}

func (h *handler) onCluster(ctx context.Context, cluster *fleet.Cluster) (*fleet.Cluster, error) {
	if cluster == nil || !recovery.Applies(cluster) || h.app.IsDeletingNamespace(cluster.Namespace) || h.app.Recoveries.Key().Public() == "" {
		return cluster, nil
	}
	account, err := h.ensureAccount(ctx, cluster)
	if err != nil {
		return cluster, h.report(cluster, err)
	}
	pinned, err := h.pinReported(cluster)
	if err != nil || pinned == nil {
		return cluster, err
	}
	return pinned, h.report(pinned, h.writeData(ctx, pinned, account))
}

// ensureAccount creates the recovery account of a workspace, its rights and its token. It returns the account, or nil
// if the cache does not show it yet.
func (h *handler) ensureAccount(ctx context.Context, cluster *fleet.Cluster) (*corev1.ServiceAccount, error) {
	namespace, err := reconcile.Optional(h.app.AllNamespaces.Cache().Get(cluster.Namespace))
	if err != nil || namespace == nil {
		return nil, err
	}
	owner := reconcile.OwnerOf(corev1.SchemeGroupVersion.WithKind("Namespace"), namespace)
	account, err := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(namespace.Name, names.Recovery))
	if err != nil {
		return nil, err
	}
	versions, err := h.accounts.Versions(owner)
	if err != nil {
		return nil, err
	}
	now := compared{namespace.UID, versions}
	if before, _ := h.compared.Load(namespace.Name); before != now || !recoveries.IsAccount(account) {
		if err := h.applyAccount(namespace.Name, owner); err != nil {
			return nil, err
		}
		h.compared.Store(namespace.Name, now)
	}
	if !recoveries.IsAccount(account) {
		return nil, nil // its appearance in the cache enqueues a Cluster
	}
	h.workspaces.Store(namespace.Name, true)
	if uid, known := h.tokens.Load(namespace.Name); known && uid == account.UID {
		return account, nil
	}
	if err := h.app.Recoveries.EnsureToken(ctx, account); err != nil {
		return nil, err
	}
	h.tokens.Store(namespace.Name, account.UID)
	return account, nil
}

// applyAccount creates or corrects the recovery account of a workspace and its rights. Only one worker does this at a time:
// the workers of the first Clusters of a workspace would create the same objects.
func (h *handler) applyAccount(workspace string, owner reconcile.Owner) error {
	h.applying.Lock()
	defer h.applying.Unlock()
	if err := h.accounts.Apply(owner, recovery.Account(workspace)...); err != nil {
		return fmt.Errorf("creating the recovery account of workspace %s: %w", workspace, err)
	}
	return nil
}

// pinDelay is the time until a reported key is pinned. An agent reports it with its first heartbeat, after which other
// controllers write the Cluster, too: at the same time, most writes would conflict and be repeated. Until then, a request of
// another agent is decided as if the key were pinned.
const pinDelay = 2 * time.Second

// pinReported pins the key that the agent of a Cluster has reported. It returns the Cluster as it is then, or nil if it is too
// early.
func (h *handler) pinReported(cluster *fleet.Cluster) (*fleet.Cluster, error) {
	id, key := cluster.Namespace+"/"+cluster.Name, recovery.KeyToPin(cluster)
	if key == "" {
		h.toPin.Delete(id)
		return cluster, nil
	}
	now := h.app.Clock()
	found, _ := h.toPin.LoadOrStore(id, now.Add(pinDelay))
	due, _ := found.(time.Time)
	if wait := min(due.Sub(now), pinDelay); wait > 0 {
		h.app.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, wait)
		return nil, nil
	}
	pinned, err := h.pin(cluster, key)
	if err == nil {
		h.toPin.Delete(id)
	}
	return pinned, err
}

// pin records the key that an agent has reported, unless the Cluster got a key or was blocked since.
func (h *handler) pin(cluster *fleet.Cluster, key string) (*fleet.Cluster, error) {
	pinned, err := reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if c.Annotations[annotation.AgentKey] == "" && !revocation.IsBlocked(c) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation.AgentKey, key)
		}
	})
	if err != nil {
		return cluster, fmt.Errorf("pinning the key of the agent of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.app.Log.Info("agent key written", "cluster", cluster.Namespace+"/"+cluster.Name, "pinned", true)
	return pinned, nil
}

// writeData writes the Secret with the recovery data of a Cluster, or removes it if no key is pinned.
func (h *handler) writeData(ctx context.Context, cluster *fleet.Cluster, account *corev1.ServiceAccount) error {
	owner := reconcile.OwnerOf(fleet.SchemeGroupVersion.WithKind("Cluster"), cluster)
	key := cluster.Annotations[annotation.AgentKey]
	if key == "" {
		return h.data.Apply(owner)
	}
	if cluster.Status.Namespace == "" || cluster.Spec.ClientID == "" {
		return nil
	}
	if taken, err := h.app.NamespaceTaken(cluster); err != nil || taken {
		return err
	}
	bearer, err := h.app.Recoveries.Token(ctx, account)
	if errors.Is(err, recoveries.ErrPending) {
		h.app.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, h.pendingDelay(account))
		return nil
	}
	if err != nil {
		return err
	}
	found, err := h.latest(cluster)
	if err != nil {
		return err
	}
	switch ticket := recoveries.TicketOf(cluster, key); { // before a ticket is signed: this runs at each heartbeat
	case h.has(cluster, bearer, ticket):
		return h.remove(owner, found)
	case h.isCurrent(found, bearer, ticket):
		return nil
	}
	return h.offer(ctx, cluster, account)
}

// remove deletes the Secret, which may be nil, of an agent that has read it.
func (h *handler) remove(owner reconcile.Owner, found *corev1.Secret) error {
	if found == nil {
		return nil
	}
	return h.data.Apply(owner)
}

// offer writes the Secret with new recovery data.
func (h *handler) offer(ctx context.Context, cluster *fleet.Cluster, account *corev1.ServiceAccount) error {
	data, err := h.app.Recoveries.Data(ctx, cluster, cluster.Annotations[annotation.AgentKey], account)
	if err != nil {
		return err
	}
	secret := recovery.Secret(cluster, h.app.Namespaces.Registration, data)
	return h.data.Apply(reconcile.OwnerOf(fleet.SchemeGroupVersion.WithKind("Cluster"), cluster), secret)
}

// latest returns the Secret with the recovery data of a Cluster, or nil. A Secret that was just written is not signed and
// written again while the cache does not show it. Writes are remembered for three seconds: if the cache is further behind,
// the same data are signed once more. This is one more write in three seconds at most, and harmless: both tickets are valid
// and differ only in their time, and the agent reads the later one.
func (h *handler) latest(cluster *fleet.Cluster) (*corev1.Secret, error) {
	found, err := h.secrets.Known(types.NamespacedName{Namespace: clusters.NamespaceOf(cluster), Name: names.Recovery})
	if err != nil || found == nil {
		return nil, err
	}
	secret, ok := found.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("reading Secret %s: unexpected object type %T", reconcile.KeyOf(found), found)
	}
	return secret, nil
}

// pendingDelay returns the time until the token of a recovery account is read again. account may be nil.
func (h *handler) pendingDelay(account *corev1.ServiceAccount) time.Duration {
	if account != nil && h.app.Clock().Sub(account.CreationTimestamp.Time) > pendingLong {
		return pendingLate
	}
	return pendingSoon
}

// has reports whether the agent of a Cluster says that it has current recovery data.
func (h *handler) has(cluster *fleet.Cluster, bearer string, ticket identity.Ticket) bool {
	key := h.app.Recoveries.Key()
	wanted := protocol.Recovery{Token: bearer, HubKey: key.Public(), WorkspaceKey: key.WorkspaceKey(cluster.Namespace)}
	return recovery.Has(cluster.Status.Agent.RecoveryTicket, wanted, ticket, h.app.Clock())
}

// isCurrent reports whether a Secret, which may be nil, contains the recovery token, the hub's key, and a ticket that need
// not be renewed.
func (h *handler) isCurrent(found *corev1.Secret, bearer string, ticket identity.Ticket) bool {
	if found == nil {
		return false
	}
	held, err := protocol.ParseRecovery(found.Data)
	return err == nil && !recovery.IsDue(held, h.app.Recoveries.Key().Public(), bearer, ticket, h.app.Clock())
}

// report reports an object of another owner that has the name of one of ours, once. Other errors are returned.
func (h *handler) report(cluster *fleet.Cluster, err error) error {
	taken := (*reconcile.TakenError)(nil)
	if err == nil || !errors.As(err, &taken) && !errors.Is(err, recoveries.ErrTaken) {
		return err
	}
	if _, before := h.reported.LoadOrStore(cluster.Namespace+": "+err.Error(), true); !before {
		h.app.Log.Warn("agents of this workspace cannot recover", "cluster", cluster.Namespace+"/"+cluster.Name, "error", err)
		h.app.Recorder.Event(cluster, corev1.EventTypeWarning, reasonUnavailable, "the agent of this Cluster cannot return by itself after a loss: "+err.Error())
	}
	return nil
}
