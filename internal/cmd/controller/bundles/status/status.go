// Package status tells Bundles and Clusters how their deployments are, and Clusters whether their agent is heard of.
//
//	BundleDeployment ─┬─► its own status.display; its finalizer when it is deleted
//	                  ├─► Bundle:  summary, partitions, display, condition Ready   (with the ledger)
//	                  └─► Cluster: summary, counts, display, conditions Ready and AgentReporting
//	Liveness ─────────────┘
//
// Of each status it writes these fields and no others. Many changes to one Bundle or
// Cluster within a moment are one write.
package status

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// How often a Cluster's status may be written, and a Bundle's, which sums up what may be thousands of clusters. The
// first change after a quiet moment is written at once.
const (
	spacing       = 100 * time.Millisecond
	spacingBundle = 500 * time.Millisecond
)

// How long a first change waits for what follows from it, so that one write tells what three would: what a
// BundleDeployment says of itself, and what is said of many. What only waits for an agent is mostly over before it
// would be told: of a Bundle, and of each of what may be a thousand clusters that it is on its way to.
const (
	settling      = 200 * time.Millisecond
	settlingSum   = 500 * time.Millisecond
	waitingBundle = 2 * time.Second
	waiting       = 5 * time.Second
)

// longestTurn is how long a sum waits for others to be told, one of which may get no answer.
const longestTurn = time.Second

// joining is how long a new Cluster's status waits for its agent to be heard of. There is nothing to tell of it before.
const joining = 5 * time.Second

type handler struct {
	app    *hub.Context
	ledger *ledger.Ledger
	sums   *sums

	deployments, bundles, clusters *queue.Queue

	// turn is with whoever tells a sum while BundleDeployments are being written.
	turn chan struct{}
}

// Register watches BundleDeployments and what their state is told to. What comes back says whether Bundles or Clusters
// wait to be told of theirs.
func Register(ctx context.Context, a *hub.Context, outcomes *ledger.Ledger) (behind func() bool, err error) {
	h := &handler{app: a, ledger: outcomes, sums: newSums(), turn: make(chan struct{}, 1)}
	h.deployments = queue.New(queue.Options{Name: "bundledeployment-status", Workers: 8, Settling: settling, Log: a.Log}, h.onDeployment)
	h.bundles = queue.New(queue.Options{Name: "bundle-status", Spacing: spacingBundle, Settling: settlingSum, Log: a.Log}, h.yielding(h.onBundle))
	h.clusters = queue.New(queue.Options{Name: "cluster-status", Workers: 8, Spacing: spacing, Settling: settlingSum, Log: a.Log}, h.yielding(h.onCluster))
	outcomes.OnChange(func(bundle types.NamespacedName) {
		h.sums.reset(bundle)
		h.bundles.AddAfter(bundle, waitingBundle) // or with what comes of it
	})
	a.Liveness.OnChange(h.clusters.Add)
	err = errors.Join(
		queue.Watch(a.BundleDeployments.Informer(), h.deploymentChanged),
		queue.Watch(a.Bundles.Informer(), h.bundleChanged),
		queue.Watch(a.Clusters.Informer(), h.clusterChanged),
	)
	if err != nil {
		return nil, err
	}
	for _, q := range []*queue.Queue{h.deployments, h.bundles, h.clusters} {
		go q.Run(ctx, a.Begun, a.Bundles.Informer().HasSynced, a.BundleDeployments.Informer().HasSynced, a.Clusters.Informer().HasSynced)
	}
	return func() bool { return h.bundles.Behind() || h.clusters.Behind() }, nil
}

// yielding tells one sum after the other while BundleDeployments are being written, so that these are on their way to
// their clusters before all is told of those that have theirs. Whoever has waited long enough waits no more.
func (h *handler) yielding(tell queue.Handle) queue.Handle {
	return func(ctx context.Context, key types.NamespacedName) error {
		if h.ledger.Writing.Load() == 0 {
			return tell(ctx, key)
		}
		select {
		case h.turn <- struct{}{}:
			defer func() { <-h.turn }()
			return tell(ctx, key)
		case <-time.After(longestTurn):
			return tell(ctx, key)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deploymentChanged wakes whoever tells of a BundleDeployment.
func (h *handler) deploymentChanged(change queue.Change[*fleet.BundleDeployment]) {
	bd, add := change.New, h.adding(change.New)
	if bd == nil {
		bd = change.Old
	} else if bd.DeletionTimestamp != nil || bd.Status.Display != state.Display(bd) {
		add(h.deployments, keyOf(bd))
	}
	h.sums.touch(index.BundleOf(bd), bd.Namespace)
	if change.Old != nil && change.New != nil && !deploymentMatters(change.Old, change.New) {
		return
	}
	if bundle := index.BundleOf(bd); bundle.Name != "" {
		add(h.bundles, bundle)
	}
	clusters, err := h.app.Clusters.Cache().GetByIndex(index.ClustersByNamespace, bd.Namespace)
	if err != nil {
		return // only without the index, which is there
	}
	for _, cluster := range clusters {
		add(h.clusters, keyOf(cluster))
	}
}

// adding is how what tells of a BundleDeployment is woken: later, while it only waits for its agent.
func (h *handler) adding(bd *fleet.BundleDeployment) func(*queue.Queue, types.NamespacedName) {
	if bd == nil || bd.DeletionTimestamp != nil || state.Of(bd) != fleet.WaitApplied {
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

// deploymentMatters leaves out what no summary shows.
func deploymentMatters(older, newer *fleet.BundleDeployment) bool {
	before, after := older.Status, newer.Status
	before.Display, after.Display = fleet.BundleDeploymentDisplay{}, fleet.BundleDeploymentDisplay{}
	return older.UID != newer.UID || older.Spec.DeploymentID != newer.Spec.DeploymentID ||
		older.Spec.StagedDeploymentID != newer.Spec.StagedDeploymentID || !reconcile.Equal(before, after)
}

// bundleChanged wakes the status of a Bundle that appeared, and looks at what became
// of one that was written: a write that was worked out from an old state ends here.
func (h *handler) bundleChanged(change queue.Change[*fleet.Bundle]) {
	if change.New == nil {
		h.sums.reset(keyOf(change.Old))
	}
	if change.New != nil && (change.Old == nil || !reconcile.Equal(change.Old.Status, change.New.Status)) {
		h.bundles.Add(keyOf(change.New))
	}
}

// clusterChanged does the same for Clusters.
func (h *handler) clusterChanged(change queue.Change[*fleet.Cluster]) {
	if change.New != nil && clusterMatters(change.Old, change.New) {
		h.clusters.Add(keyOf(change.New))
	}
}

// clusterMatters says whether the sums of a Cluster may be others now, or another process's to tell: heartbeats after the
// first one, and the fields of others, change nothing here.
func clusterMatters(older, newer *fleet.Cluster) bool {
	return older == nil || older.Status.Namespace != newer.Status.Namespace ||
		older.Labels[fleet.LabelShardRef] != newer.Labels[fleet.LabelShardRef] ||
		older.Status.Agent.LastSeen.IsZero() != newer.Status.Agent.LastSeen.IsZero() ||
		!reconcile.Equal(older.Status.Conditions, newer.Status.Conditions) ||
		!reconcile.Equal(older.Status.Summary, newer.Status.Summary) ||
		older.Status.ResourceCounts != newer.Status.ResourceCounts || older.Status.Display != newer.Status.Display
}

// onDeployment writes the printer columns of a BundleDeployment, and lets one go that
// is deleted: the agent uninstalls when it is gone.
func (h *handler) onDeployment(_ context.Context, key types.NamespacedName) error {
	bd, err := reconcile.Optional(h.app.BundleDeployments.Cache().Get(key.Namespace, key.Name))
	if err != nil || bd == nil || !h.app.Owns(bd) {
		return err
	}
	if bd.DeletionTimestamp == nil {
		// The rest of this status is the agent's, and not in the cache as a whole.
		_, err = reconcile.PatchStatus(h.app.BundleDeployments, bd, func(bd *fleet.BundleDeployment) {
			bd.Status.Display = state.Display(bd)
		})
		return err
	}
	_, err = reconcile.Patch(h.app.BundleDeployments, bd, func(bd *fleet.BundleDeployment) {
		bd.Finalizers = slices.DeleteFunc(bd.Finalizers, func(f string) bool { return f == fleet.FinalizerBundleDeployment })
	})
	return err
}
