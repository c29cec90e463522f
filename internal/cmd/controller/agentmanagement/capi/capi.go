package capi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/capi/join"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// workers is the number of Clusters that are reconciled in parallel.
const workers = 5

// Rate limit of failing keys.
const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
)

// handler reconciles Clusters of Cluster API. It has its own queue because the kind may not exist.
type handler struct {
	app   *hub.App
	watch *watch
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// groups reconciles the ClusterGroups of ClusterClasses.
	groups *groups
	// join joins the clusters that the hub cannot reach.
	join *join.Joiner
	// version returns the last watched version of a Secret, or "" if it does not exist.
	version func(types.NamespacedName) string
	// submit runs a job on another cluster in the background.
	submit func(remote.Job)

	mu sync.Mutex // guards the fields below
	// secrets are remembered by version.
	secrets map[types.NamespacedName]knownSecret
	// recorded contains the last Event of each Cluster, which is repeated after eventPeriod.
	recorded map[types.NamespacedName]report
	// identities are remembered until the cluster, or the address in its kubeconfig, is another one.
	identities map[types.NamespacedName]knownIdentity
	// refusals are the last refused imports of Clusters of Cluster API.
	refusals map[types.NamespacedName]knownRefusal
	// asking contains the imported Clusters that are being asked which cluster they are.
	asking map[types.NamespacedName]bool
	// gone are the last states of Clusters of Cluster API whose deletion was not reconciled yet.
	gone map[types.NamespacedName]*capirule.Cluster
}

type knownSecret struct {
	version string
	secret  capirule.Secret
	address [sha256.Size]byte // of its kubeconfig, see kubeconfig.AddressHash
	content [sha256.Size]byte // a hash of its kubeconfig
}

type report struct {
	uid             types.UID
	reason, message string
	at              time.Time
}

// Register watches what concerns Clusters of Cluster API. Their own watch starts when they exist and capi.enabled is true.
func Register(_ context.Context, a *hub.App) error {
	source, err := newSource(a.RESTConfig)
	if err != nil {
		return err
	}
	h := newHandler(a)
	h.groups = newGroups(h)
	h.watch = newWatch(a.Log, source, h.seen, h.synced)
	a.Config.OnChange(func(config.Config, config.Config) { h.onConfig() })
	if err := reconcile.Watch(a.Clusters.Informer(), clustersOf, h.enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(a.AllNamespaces.Informer(), h.clustersIn, h.enqueue); err != nil {
		return err
	}
	if err := a.OnSecret(clusterOfSecret, h.enqueue); err != nil {
		return err
	}
	if err := h.join.Watch(h.enqueue); err != nil {
		return err
	}
	if err := h.groups.register(); err != nil {
		return err
	}
	a.BeforeControllers(func(ctx context.Context) { go h.run(ctx) })
	return nil
}

func newHandler(a *hub.App) *handler {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryMin, retryMax)
	h := &handler{
		app: a, queue: workqueue.NewTypedRateLimitingQueue(limiter), version: a.SecretVersion, submit: a.Remote.Submit,
		secrets: map[types.NamespacedName]knownSecret{}, recorded: map[types.NamespacedName]report{},
		identities: map[types.NamespacedName]knownIdentity{}, refusals: map[types.NamespacedName]knownRefusal{}, asking: map[types.NamespacedName]bool{}, gone: map[types.NamespacedName]*capirule.Cluster{},
	}
	h.join = join.New(a, func(secret types.NamespacedName) string { return h.version(secret) })
	return h
}

// run watches and reconciles until ctx ends.
func (h *handler) run(ctx context.Context) {
	context.AfterFunc(ctx, h.queue.ShutDown)
	for range workers {
		go h.work(ctx)
	}
	go h.groups.run(ctx)
	h.watch.run(ctx, func() bool { return h.app.Config.Get().CAPI.Enabled })
}

func (h *handler) work(ctx context.Context) {
	for {
		key, stopped := h.queue.Get()
		if stopped {
			return
		}
		if err := h.reconcile(ctx, key); err != nil {
			h.app.Log.Warn("reconciling a cluster of Cluster API failed", "cluster", key.String(), "error", err)
			h.queue.AddRateLimited(key)
		} else {
			h.queue.Forget(key)
		}
		h.queue.Done(key)
	}
}

// enqueue does nothing while Clusters of Cluster API are not watched. When that begins, all are enqueued. While it is disabled,
// only the Clusters that the hub created are enqueued.
func (h *handler) enqueue(key types.NamespacedName) {
	if h.watch.current() != nil {
		h.queue.Add(key)
		return
	}
	if left, err := h.leftOver(key); err == nil && left != nil {
		h.queue.Add(key)
	}
}

// leftOver returns a Cluster that the hub created for Cluster API, if capi.enabled is false now. Otherwise it returns nil.
func (h *handler) leftOver(key types.NamespacedName) (*fleet.Cluster, error) {
	if !h.app.Config.Loaded() || h.app.Config.Get().CAPI.Enabled {
		return nil, nil
	}
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name))
	if err != nil || !capirule.IsMarked(cluster) || cluster.DeletionTimestamp != nil {
		return nil, err
	}
	return cluster, nil
}

// release ends what only Cluster API keeps up to date: the token of a Cluster whose agent has reported, and the condition.
func (h *handler) release(key types.NamespacedName) error {
	cluster, err := h.leftOver(key)
	if err != nil || cluster == nil {
		return err
	}
	_, err = hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		conditions.Remove(&c.Status.Conditions, conditions.FollowsClusterAPI)
	})
	return errors.Join(h.join.End(cluster), err)
}

// clustersOf returns the keys that a Cluster of Fleet concerns: its own, and that of the cluster whose kubeconfig it
// names.
func clustersOf(cluster *fleet.Cluster) []types.NamespacedName {
	own := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	return append([]types.NamespacedName{own}, clusterOfSecret(clusters.KubeconfigSecret(cluster))...)
}

func clusterOfSecret(secret types.NamespacedName) []types.NamespacedName {
	name := capirule.ClusterOfSecret(secret.Name)
	if name == "" {
		return nil
	}
	return []types.NamespacedName{{Namespace: secret.Namespace, Name: name}}
}

// clustersIn returns the Clusters of Cluster API in a namespace, whose labels may have changed.
func (h *handler) clustersIn(namespace *corev1.Namespace) []types.NamespacedName {
	return h.watch.keysIn(namespace.Name)
}

// onConfig starts or stops the watch, and enqueues all Clusters because a selector may have changed.
func (h *handler) onConfig() {
	h.watch.wake()
	h.enqueueAll()
}

// synced enqueues all Clusters when a watch has listed them: also those of Fleet whose Cluster of Cluster API was
// deleted while nothing watched it. It is also called when the watch was disabled.
func (h *handler) synced() {
	h.enqueueAll()
	h.groups.enqueueAll()
}

func (h *handler) enqueueAll() {
	for _, key := range h.watch.keysIn("") {
		h.enqueue(key)
	}
	clusters, err := h.app.Clusters.Cache().List("", labels.Everything())
	if err != nil {
		return // the cache has not started; its start enqueues every Cluster
	}
	for _, cluster := range clusters {
		if capirule.IsMarked(cluster) {
			h.enqueue(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
		}
	}
}

// seen enqueues a Cluster of Cluster API that was added, changed or deleted. It remembers a deleted one, because its
// last state decides what happens to the Cluster of Fleet.
func (h *handler) seen(cluster *capirule.Cluster, deleted bool) {
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	h.mu.Lock()
	if deleted {
		h.gone[key] = cluster
	} else {
		delete(h.gone, key)
	}
	h.mu.Unlock()
	h.queue.Add(key)
}

// reconcile decides about one Cluster of Cluster API and carries that out.
func (h *handler) reconcile(ctx context.Context, key types.NamespacedName) error {
	store := h.watch.current()
	if store == nil {
		return h.release(key) // nothing is known about Clusters of Cluster API; all are enqueued when that changes
	}
	in, err := h.gather(ctx, store, key)
	if err != nil {
		return fmt.Errorf("gathering the state of Cluster %s of Cluster API: %w", key, err)
	}
	out := capirule.Decide(in.Input)
	h.app.Log.Debug("decided about a cluster of Cluster API", "cluster", key.String(), "stage", out.Stage, "reason", out.Reason)
	if err := h.act(ctx, in, out); err != nil {
		return err
	}
	if in.Cluster == nil {
		h.forget(key, in.Last)
	}
	if !out.Again.IsZero() {
		h.queue.AddAfter(key, out.Again.Sub(in.Now))
	}
	return nil
}

// forget drops what is remembered about a Cluster of Cluster API that is gone.
func (h *handler) forget(key types.NamespacedName, last *capirule.Cluster) {
	h.join.Forget(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.recorded, key)
	delete(h.secrets, key)
	delete(h.identities, key)
	delete(h.refusals, key)
	if h.gone[key] == last {
		delete(h.gone, key)
	}
}

// store contains the Clusters of Cluster API.
type store = cache.Indexer
