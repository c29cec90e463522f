package status

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/outcomes"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// window is the minimum interval between writes of the status of a Bundle or Cluster. A Bundle may sum up thousands of
// clusters. The first change after a quiet period is written at once if it is an outcome; see isOutcome.
const window = 500 * time.Millisecond

// Delays of other first changes, so that one write covers the changes that follow. settling applies to a
// BundleDeployment, settlingSum to a Bundle or Cluster. A deployment that only waits for its agent is often ready
// before that state has to be shown. Its Bundle waits for waitingBundle. The BundleDeployment and its Cluster wait for
// waiting, because there may be a thousand of them per Bundle.
const (
	settling      = 200 * time.Millisecond
	settlingSum   = 500 * time.Millisecond
	waitingBundle = 2 * time.Second
	waiting       = 5 * time.Second
)

// longestTurn is how long a status update waits for its turn. The update that has the turn may hang.
const longestTurn = time.Second

// joining is how long the status update of a new Cluster waits for the first report of its agent. There is nothing to
// show before.
const joining = 5 * time.Second

type handler struct {
	app      *hub.App
	outcomes *outcomes.Store

	deployments, bundles, clusters *queue.Queue

	// turn is held by the status update that runs while BundleDeployments are being written.
	turn chan struct{}
}

// Register watches BundleDeployments and the objects whose status depends on them.
func Register(ctx context.Context, a *hub.App, outcomes *outcomes.Store) error {
	h := &handler{app: a, outcomes: outcomes, turn: make(chan struct{}, 1)}
	h.deployments = queue.New(queue.Options{Name: "bundledeployment-status", Workers: 8, Settling: settling, Log: a.Log}, h.onDeployment)
	h.bundles = h.newSums("bundle-status", 6, h.yielding(h.onBundle))
	h.clusters = h.newSums("cluster-status", 12, h.yielding(h.onCluster))
	outcomes.OnChange(func(bundle types.NamespacedName) {
		h.bundles.AddAfter(bundle, waitingBundle) // or earlier, when a BundleDeployment changes
	})
	a.Liveness.OnChange(h.clusters.Add)
	err := errors.Join(
		reconcile.WatchChanges(a.BundleDeployments.Informer(), h.deploymentChanged),
		reconcile.WatchChanges(a.Bundles.Informer(), h.bundleChanged),
		reconcile.WatchChanges(a.Clusters.Informer(), h.clusterChanged),
	)
	if err != nil {
		return err
	}
	for _, q := range []*queue.Queue{h.deployments, h.bundles, h.clusters} {
		go q.Run(ctx, a.MayReconcile, a.Bundles.Informer().HasSynced, a.BundleDeployments.Informer().HasSynced, a.Clusters.Informer().HasSynced)
	}
	return nil
}

// newSums returns a queue of Bundles or Clusters. One workspace gets two thirds of the workers: a tenant may have any number of
// them, and its agents may report as often as they like.
func (h *handler) newSums(name string, workers int, handle queue.Handle) *queue.Queue {
	return queue.New(queue.Options{
		Name: name, Workers: workers, PerWorkspace: workers * 2 / 3, Spacing: window, Settling: settlingSum, Log: h.app.Log,
	}, handle)
}

// yielding runs status updates one at a time while BundleDeployments are being written, so that the writes reach the
// clusters first. An update that has waited for longestTurn runs in any case.
func (h *handler) yielding(write queue.Handle) queue.Handle {
	return func(ctx context.Context, key types.NamespacedName) error {
		if h.outcomes.Writing.Load() == 0 {
			return write(ctx, key)
		}
		select {
		case h.turn <- struct{}{}:
			defer func() { <-h.turn }()
			return write(ctx, key)
		case <-time.After(longestTurn):
			return write(ctx, key)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deploymentChanged enqueues the status updates that depend on a BundleDeployment.
func (h *handler) deploymentChanged(change reconcile.Change[*fleet.BundleDeployment]) {
	bd, add := change.New, h.adding(change)
	if bd == nil {
		bd = change.Old
	} else if bd.DeletionTimestamp != nil || bd.Status.Display != state.Display(bd) {
		add(h.deployments, reconcile.KeyOf(bd))
	}
	if change.Old != nil && change.New != nil && !deploymentMatters(change.Old, change.New) {
		return
	}
	if bundle := index.BundleOf(bd); bundle.Name != "" {
		add(h.bundles, bundle)
	}
	clusters, err := h.app.Clusters.Cache().GetByIndex(index.ClustersByNamespace, bd.Namespace)
	if err != nil {
		return // only if the index is missing, which it is not
	}
	for _, cluster := range clusters {
		add(h.clusters, reconcile.KeyOf(cluster))
	}
}

// adding returns the function that enqueues a status update for a BundleDeployment. If the BundleDeployment only waits
// for its agent, the update is delayed. An outcome is not delayed.
func (h *handler) adding(change reconcile.Change[*fleet.BundleDeployment]) func(*queue.Queue, types.NamespacedName) {
	switch {
	case isOutcome(change.Old, change.New):
		return (*queue.Queue).AddNow
	case change.New == nil || change.New.DeletionTimestamp != nil || state.Of(change.New) != fleet.WaitApplied:
		return (*queue.Queue).Add
	}
	return func(q *queue.Queue, key types.NamespacedName) {
		wait := waiting
		if q == h.bundles {
			wait = waitingBundle
		}
		q.AddAfter(key, wait)
	}
}

// isOutcome reports whether a BundleDeployment has become ready, has failed, or is no longer ready. Other changes are
// steps of a deployment, after which an outcome follows soon.
func isOutcome(older, newer *fleet.BundleDeployment) bool {
	if older == nil || newer == nil || newer.DeletionTimestamp != nil {
		return false
	}
	before, now := state.Of(older), state.Of(newer)
	switch now {
	case before, fleet.WaitApplied:
		return false
	case fleet.Ready, fleet.ErrApplied:
		return true
	}
	return before == fleet.Ready
}

// deploymentMatters ignores changes that no summary shows.
func deploymentMatters(older, newer *fleet.BundleDeployment) bool {
	before, after := older.Status, newer.Status
	before.Display, after.Display = fleet.BundleDeploymentDisplay{}, fleet.BundleDeploymentDisplay{}
	return older.UID != newer.UID || older.Labels[fleet.LabelRepoName] != newer.Labels[fleet.LabelRepoName] ||
		older.Labels[fleet.LabelHelmOpName] != newer.Labels[fleet.LabelHelmOpName] || older.Spec.DeploymentID != newer.Spec.DeploymentID ||
		older.Spec.StagedDeploymentID != newer.Spec.StagedDeploymentID || !reconcile.Equal(before, after)
}

// bundleChanged enqueues the status of a new Bundle, and of a Bundle whose status was written. The second case
// corrects a write that was based on an old state.
func (h *handler) bundleChanged(change reconcile.Change[*fleet.Bundle]) {
	if change.New != nil && (change.Old == nil || !reconcile.Equal(change.Old.Status, change.New.Status)) {
		h.bundles.Add(reconcile.KeyOf(change.New))
	}
}

// clusterChanged does the same for Clusters.
func (h *handler) clusterChanged(change reconcile.Change[*fleet.Cluster]) {
	if change.New != nil && clusterMatters(change.Old, change.New) {
		h.clusters.Add(reconcile.KeyOf(change.New))
	}
}

// clusterMatters reports whether the status of a Cluster may have to be written, or whether its shard has changed. It
// ignores heartbeats after the first one, and fields of other controllers.
func clusterMatters(older, newer *fleet.Cluster) bool {
	return older == nil || older.Status.Namespace != newer.Status.Namespace ||
		older.Labels[fleet.LabelShardRef] != newer.Labels[fleet.LabelShardRef] ||
		older.Status.Agent.LastSeen.IsZero() != newer.Status.Agent.LastSeen.IsZero() ||
		!reconcile.Equal(older.Status.Conditions, newer.Status.Conditions) ||
		!reconcile.Equal(older.Status.Summary, newer.Status.Summary) ||
		older.Status.ResourceCounts != newer.Status.ResourceCounts || older.Status.Display != newer.Status.Display
}

// onDeployment writes the printer columns of a BundleDeployment. If the BundleDeployment is being deleted, it removes
// the finalizer; the agent uninstalls when the object is gone. If it is deleted only because its namespace is, the finalizer
// stays until the agent has lost its rights (package cluster), so that the workloads stay.
func (h *handler) onDeployment(_ context.Context, key types.NamespacedName) error {
	bd, err := reconcile.Optional(h.app.BundleDeployments.Cache().Get(key.Namespace, key.Name))
	if err != nil || bd == nil || !h.app.Owns(bd) {
		return err
	}
	if bd.DeletionTimestamp == nil {
		// The other fields of this status belong to the agent, and the cache does not hold all of them.
		_, err = reconcile.PatchStatus(h.app.BundleDeployments, bd, func(bd *fleet.BundleDeployment) {
			bd.Status.Display = state.Display(bd)
		})
		return err
	}
	if lost, err := h.lostWithNamespace(bd); err != nil || lost {
		return err
	}
	_, err = reconcile.Patch(h.app.BundleDeployments, bd, func(bd *fleet.BundleDeployment) {
		bd.Finalizers = slices.DeleteFunc(bd.Finalizers, func(f string) bool { return f == fleet.FinalizerBundleDeployment })
	})
	return err
}

// lostWithNamespace reports whether a BundleDeployment is deleted because the namespace of its Cluster is, although the Bundle
// and the Cluster stay. It asks the API server, because the cache may know of the deletion of the BundleDeployment first.
func (h *handler) lostWithNamespace(bd *fleet.BundleDeployment) (bool, error) {
	of := index.BundleOf(bd)
	bundle, err := reconcile.Optional(h.app.Bundles.Cache().Get(of.Namespace, of.Name))
	if err != nil || bundle == nil || bundle.DeletionTimestamp != nil {
		return false, err
	}
	key := index.ClusterOf(bd)
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name))
	if err != nil || cluster == nil || cluster.DeletionTimestamp != nil || clusters.ManagedElsewhere(cluster) {
		return false, err
	}
	namespace, err := reconcile.Optional(h.app.AllNamespaces.Get(bd.Namespace, metav1.GetOptions{}))
	return namespace != nil && namespace.DeletionTimestamp != nil, err
}
