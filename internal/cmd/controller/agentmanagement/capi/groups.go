package capi

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byClass is the index of Clusters by ClusterClass: "<workspace>/<ID>".
const byClass = "fleet.clusters-by-capi-class"

// groups keeps a ClusterGroup for each ClusterClass in use. Its keys are workspaces and IDs of ClusterClasses.
type groups struct {
	*handler

	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

func newGroups(h *handler) *groups {
	h.app.Clusters.Cache().AddIndexer(byClass, func(c *fleet.Cluster) ([]string, error) {
		if id := capirule.ClassOf(c); id != "" {
			return []string{c.Namespace + "/" + id}, nil
		}
		return nil, nil
	})
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryMin, retryMax)
	return &groups{handler: h, queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

// groupKey is what a Cluster or ClusterGroup has to do with a ClusterClass. Events that do not change it are ignored: the
// statuses of Clusters change all the time.
type groupKey struct {
	types.NamespacedName

	marked  bool
	version int64 // of the selector
}

func keyOfCluster(c *fleet.Cluster) (key groupKey) {
	if capirule.ClassOf(c) != "" {
		key.Namespace, key.Name = c.Namespace, capirule.ClassOf(c)
	}
	return key
}

func keyOfGroup(g *fleet.ClusterGroup) (key groupKey) {
	if g != nil {
		key.Namespace, key.Name, key.marked, key.version = g.Namespace, g.Name, capirule.IsGroupOfClass(g), g.Generation
	}
	return key
}

// register watches Clusters of Fleet and ClusterGroups.
func (g *groups) register() error {
	return errors.Join(
		reconcile.WatchChanges(g.app.Clusters.Informer(), func(change reconcile.Change[*fleet.Cluster]) {
			g.onChange(keyOfCluster(change.Old), keyOfCluster(change.New))
		}),
		reconcile.WatchChanges(g.app.ClusterGroups.Informer(), func(change reconcile.Change[*fleet.ClusterGroup]) {
			g.onChange(keyOfGroup(change.Old), keyOfGroup(change.New))
		}),
	)
}

func (g *groups) onChange(before, after groupKey) {
	if before != after {
		g.enqueue(before.NamespacedName)
		g.enqueue(after.NamespacedName)
	}
}

// enqueue does nothing while Clusters of Cluster API are not watched. When that begins, all are enqueued.
func (g *groups) enqueue(key types.NamespacedName) {
	if key.Name != "" && g.watch.current() != nil {
		g.queue.Add(key)
	}
}

// enqueueAll enqueues all ClusterClasses in use, and all ClusterGroups of the hub: a ClusterClass may have come out of use
// while nothing was watched.
func (g *groups) enqueueAll() {
	clusters, err := g.app.Clusters.Cache().List("", labels.Everything())
	found, groupsErr := g.app.ClusterGroups.Cache().List("", labels.Everything())
	if err != nil || groupsErr != nil {
		return // the caches have not started; their start enqueues everything
	}
	for _, cluster := range clusters {
		g.enqueue(keyOfCluster(cluster).NamespacedName)
	}
	for _, group := range found {
		if key := keyOfGroup(group); key.marked {
			g.enqueue(key.NamespacedName)
		}
	}
}

// run reconciles until ctx ends.
func (g *groups) run(ctx context.Context) {
	context.AfterFunc(ctx, g.queue.ShutDown)
	for {
		key, stopped := g.queue.Get()
		if stopped {
			return
		}
		if err := g.reconcile(key); err != nil {
			g.app.Log.Warn("reconciling the ClusterGroup of a ClusterClass failed", "group", key.String(), "error", err)
			g.queue.AddRateLimited(key)
		} else {
			g.queue.Forget(key)
		}
		g.queue.Done(key)
	}
}

func (g *groups) reconcile(key types.NamespacedName) error {
	users, err := g.app.Clusters.Cache().GetByIndex(byClass, key.String())
	if err != nil {
		return fmt.Errorf("listing the Clusters of ClusterGroup %s: %w", key, err)
	}
	group, err := reconcile.Optional(g.app.ClusterGroups.Cache().Get(key.Namespace, key.Name))
	if err != nil {
		return fmt.Errorf("reading ClusterGroup %s from the cache: %w", key, err)
	}
	switch capirule.DecideGroup(len(users) > 0, group) {
	case capirule.GroupMissing:
		_, err = g.app.ClusterGroups.Create(capirule.NewGroup(key.Namespace, key.Name))
	case capirule.GroupChanged:
		_, err = reconcile.Patch(g.app.ClusterGroups, group, capirule.SelectClass)
	case capirule.GroupUnused:
		err = reconcile.Delete(g.app.ClusterGroups, group)
	}
	for _, user := range users {
		g.handler.enqueue(reconcile.KeyOf(user)) // they report whether the name is taken
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the cache is behind, which is an event
	}
	return err
}
