package clustergroup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// spacing is the minimum interval between writes of a group's status. A group may have thousands of Clusters, and
// each changes several times in a rollout. The first change after a quiet period is written immediately.
const spacing = 2 * time.Second

// Limits for concurrent passes. One workspace may occupy perWorkspace of the workers.
const workers, perWorkspace = 4, 2

type handler struct {
	app   *hub.App
	queue *queue.Queue
}

// Register watches ClusterGroups and Clusters.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a}
	h.queue = queue.New(queue.Options{Name: "clustergroup-status", Workers: workers, PerWorkspace: perWorkspace, Spacing: spacing, Log: a.Log}, h.handle)
	err := errors.Join(
		reconcile.WatchChanges(a.ClusterGroups.Informer(), h.onGroup),
		reconcile.WatchChanges(a.Clusters.Informer(), h.onCluster),
	)
	if err != nil {
		return err
	}
	go h.queue.Run(ctx, a.MayReconcile, a.ClusterGroups.Informer().HasSynced, a.Clusters.Informer().HasSynced)
	return nil
}

func (h *handler) handle(_ context.Context, key types.NamespacedName) error {
	group, err := reconcile.Optional(h.app.ClusterGroups.Cache().Get(key.Namespace, key.Name))
	if err != nil || group == nil || group.DeletionTimestamp != nil || !h.app.Owns(group) {
		return err
	}
	in, err := h.gather(group)
	if err != nil {
		return err
	}
	_, err = hub.Report(h.app, h.app.ClusterGroups, group, func(g *fleet.ClusterGroup) { setStatus(&g.Status, in) })
	return err
}

func (h *handler) gather(group *fleet.ClusterGroup) (input, error) {
	in := input{now: h.app.Clock()}
	selector, err := h.app.GroupSelector(group)
	if err != nil {
		in.broken = err
		return in, nil //nolint:nilerr // the group's status reports it
	}
	in.members, err = h.app.Clusters.Cache().List(group.Namespace, selector)
	return in, err
}

// onGroup enqueues a group that is new, whose spec has changed, or whose status was written. The last case corrects a
// status that was computed from old data or written by another client.
func (h *handler) onGroup(change reconcile.Change[*fleet.ClusterGroup]) {
	if change.New == nil {
		h.app.DropGroups(change.Old.Namespace)
	} else if groupMatters(change.Old, change.New) {
		h.queue.Add(reconcile.KeyOf(change.New))
	}
}

func groupMatters(older, newer *fleet.ClusterGroup) bool {
	return older == nil || older.UID != newer.UID || older.Generation != newer.Generation ||
		older.Labels[fleet.LabelShardRef] != newer.Labels[fleet.LabelShardRef] || // its shard may have changed
		!reconcile.Equal(older.Status, newer.Status)
}

// onCluster enqueues the groups that a Cluster is in, and those it was in before. Clusters of the initial list enqueue
// nothing, because all groups are enqueued at that time.
func (h *handler) onCluster(change reconcile.Change[*fleet.Cluster]) {
	older, newer := change.Old, change.New
	if change.Initial || older != nil && newer != nil && !clusterMatters(older, newer) {
		return
	}
	clusters := slices.DeleteFunc([]*fleet.Cluster{older, newer}, func(c *fleet.Cluster) bool { return c == nil })
	groups, err := h.app.GroupsIn(clusters[0].Namespace)
	if err != nil {
		return // only if the index is missing, which it is not
	}
	for _, cluster := range clusters {
		for _, group := range groups.Of(cluster) {
			h.queue.Add(reconcile.KeyOf(group))
		}
	}
}

// clusterMatters ignores heartbeats and other changes that no group shows.
func clusterMatters(older, newer *fleet.Cluster) bool {
	return older.UID != newer.UID || !maps.Equal(older.Labels, newer.Labels) ||
		older.Status.ResourceCounts != newer.Status.ResourceCounts || silent(older) != silent(newer) ||
		!reconcile.Equal(older.Status.Summary, newer.Status.Summary)
}
