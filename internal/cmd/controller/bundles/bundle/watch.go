package bundle

import (
	"errors"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watch enqueues Bundles when something changes that decides where they are deployed. Objects of the initial list do
// not enqueue other Bundles, because all Bundles are enqueued at that time. Errors of index lookups cannot occur:
// index.Add has created the indexes.
func (h *handler) watch() error {
	h.app.Liveness.OnChange(h.onLiveness)
	return errors.Join(
		queue.Watch(h.app.Bundles.Informer(), h.onDependencies),
		queue.Watch(h.app.Bundles.Informer(), h.onBundle),
		queue.Watch(h.app.Clusters.Informer(), h.onCluster),
		queue.Watch(h.app.ClusterGroups.Informer(), h.onGroup),
		queue.Watch(h.app.BundleNamespaceMappings.Informer(), h.onMapping),
		queue.Watch(h.app.AllNamespaces.Informer(), h.onNamespace),
		queue.Watch(h.app.BundleDeployments.Informer(), h.onDeployment),
		queue.Watch(h.app.Contents.Informer(), h.onContent),
	)
}

// coalescing is how long a Bundle waits after a change that lets its rollout continue, so that several changes cause
// one pass.
const coalescing = 20 * time.Millisecond

func (h *handler) onBundle(change queue.Change[*fleet.Bundle]) {
	older, newer := change.Old, change.New
	switch {
	case newer == nil:
		h.cache.forget(older.UID)
		h.queue.Add(keyOf(older))
	case older == nil || bundleMatters(older, newer):
		h.queue.Add(keyOf(newer))
	}
}

// bundleMatters reports whether more than the status has changed.
func bundleMatters(older, newer *fleet.Bundle) bool {
	return older.UID != newer.UID || older.Generation != newer.Generation ||
		!maps.Equal(older.Labels, newer.Labels) || !maps.Equal(older.Annotations, newer.Annotations) ||
		(older.DeletionTimestamp == nil) != (newer.DeletionTimestamp == nil)
}

func (h *handler) onCluster(change queue.Change[*fleet.Cluster]) {
	older, newer := change.Old, change.New
	if change.Initial || older != nil && newer != nil && !clusterMatters(older, newer) {
		return
	}
	cluster := newer
	if cluster == nil {
		cluster = older
	}
	h.enqueueDeployed(cluster.Status.Namespace)
	if newer != nil {
		h.enqueueSelecting(newer)
	}
	// A running pass may still deploy to the cluster by its old labels.
	if older != nil && (newer == nil || !maps.Equal(older.Labels, newer.Labels)) {
		h.enqueueSelecting(older)
	}
}

// clusterMatters ignores heartbeats, summaries and other changes without effect on targeting.
func clusterMatters(older, newer *fleet.Cluster) bool {
	return older.UID != newer.UID ||
		!maps.Equal(older.Labels, newer.Labels) || !maps.Equal(older.Annotations, newer.Annotations) ||
		older.Spec.Paused != newer.Spec.Paused || !reconcile.Equal(older.Spec.TemplateValues, newer.Spec.TemplateValues) ||
		older.Status.Namespace != newer.Status.Namespace ||
		older.Status.Scheduled != newer.Status.Scheduled || older.Status.ActiveSchedule != newer.Status.ActiveSchedule ||
		(older.DeletionTimestamp == nil) != (newer.DeletionTimestamp == nil)
}

// enqueueDeployed enqueues the Bundles deployed in a cluster's namespace, because they may have to be removed.
func (h *handler) enqueueDeployed(namespace string) {
	if namespace == "" {
		return
	}
	deployments, err := h.app.BundleDeployments.Cache().List(namespace, labels.Everything())
	if err != nil {
		return
	}
	for _, bd := range deployments {
		if bundle := index.BundleOf(bd); bundle.Name != "" {
			h.queue.Add(bundle)
		}
	}
}

// enqueueSelecting enqueues the Bundles that target a cluster.
func (h *handler) enqueueSelecting(cluster *fleet.Cluster) {
	listed, err := h.app.ClusterGroups.Cache().List(cluster.Namespace, labels.Everything())
	if err != nil {
		return
	}
	groups := targeting.NewGroups(listed)
	for _, bundle := range h.mayPick(cluster, groups.Names(cluster)) {
		if selection := h.cache.selection(bundle); selection != nil && selection.Picks(cluster, groups) {
			h.queue.Add(keyOf(bundle))
		}
	}
}

func (h *handler) onGroup(change queue.Change[*fleet.ClusterGroup]) {
	older, newer := change.Old, change.New
	if change.Initial || older != nil && newer != nil &&
		maps.Equal(older.Labels, newer.Labels) && reconcile.Equal(older.Spec, newer.Spec) {
		return
	}
	group := newer
	if group == nil {
		group = older
	}
	for _, bundle := range h.reaching(group.Namespace) {
		if selection := h.cache.selection(bundle); selection != nil && selection.UsesGroups() {
			h.queue.Add(keyOf(bundle))
		}
	}
}

// onDeployment restores a BundleDeployment that was deleted, and lets a deleted Bundle complete after its last one. If
// the BundleDeployment belonged to another Bundle, a Bundle of the same name may now use the place.
func (h *handler) onDeployment(change queue.Change[*fleet.BundleDeployment]) {
	gone := change.Old
	if change.New != nil {
		h.onDeploymentThere(change)
		return
	}
	h.values.Forget(gone.UID)
	bundle := index.BundleOf(gone)
	h.mutations.gone(bundle, gone)
	if bundle.Name != "" {
		h.queue.Add(bundle)
	}
	clusters, err := h.app.Clusters.Cache().GetByIndex(index.ClustersByNamespace, gone.Namespace)
	if err != nil {
		return
	}
	for _, cluster := range clusters {
		h.queue.Add(types.NamespacedName{Namespace: cluster.Namespace, Name: gone.Name})
		for _, mapping := range h.mappingsTo(cluster.Namespace) {
			h.queue.Add(types.NamespacedName{Namespace: mapping.Workspace(), Name: gone.Name})
		}
	}
}

// contentLag is how long a Content may reach the cache later than the BundleDeployments that name it.
const contentLag = time.Second

// onDeploymentThere continues a rollout, restores labels that were changed, and recreates a Content that was deleted
// just before a BundleDeployment named it again.
func (h *handler) onDeploymentThere(change queue.Change[*fleet.BundleDeployment]) {
	older, newer := change.Old, change.New
	bundle := index.BundleOf(newer)
	if h.values.DoubtReported(older, newer) {
		h.queue.Add(bundle)
	}
	h.mutations.cached(bundle, newer)
	if older != nil {
		if before := index.BundleOf(older); before != bundle && before.Name != "" {
			h.mutations.cached(before, newer)
			h.queue.Add(before)
		}
		if letsContinue(older, newer) {
			h.continueRollout(bundle)
		}
	}
	if !change.Initial && bundle.Name != "" && h.missesContent(older, newer) {
		h.queue.AddAfter(bundle, contentLag)
	}
}

// missesContent reports whether a BundleDeployment newly names a Content that does not exist.
func (h *handler) missesContent(older, newer *fleet.BundleDeployment) bool {
	var before []string
	if older != nil {
		before = index.ContentsOf(older)
	}
	return slices.ContainsFunc(index.ContentsOf(newer), func(name string) bool {
		if slices.Contains(before, name) {
			return false
		}
		found, err := reconcile.Optional(h.app.Contents.Cache().Get(name))
		return err == nil && found == nil
	})
}

// letsContinue reports whether a change of a BundleDeployment may let the rollout continue: it has become available, or it
// has become unavailable and waits for a newer version that may correct it.
func letsContinue(older, newer *fleet.BundleDeployment) bool {
	if !rollout.IsAvailable(newer) {
		return rollout.IsAvailable(older) && newer.Spec.DeploymentID != newer.Spec.StagedDeploymentID
	}
	return !rollout.IsAvailable(older) || older.Status.AppliedDeploymentID != newer.Status.AppliedDeploymentID ||
		older.Spec.StagedDeploymentID != newer.Spec.StagedDeploymentID
}

// continueRollout enqueues a Bundle if some of its targets wait for others.
func (h *handler) continueRollout(bundle types.NamespacedName) {
	if bundle.Name != "" && h.cache.isWaiting(bundle) {
		h.queue.AddAfter(bundle, coalescing)
	}
}

// onLiveness enqueues the Bundles of a cluster whose agent has stopped or resumed reporting, because they count that
// cluster.
func (h *handler) onLiveness(key types.NamespacedName) {
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name))
	if err == nil && cluster != nil {
		h.enqueueDeployed(cluster.Status.Namespace)
	}
}

// onContent restores a Content that is still needed.
func (h *handler) onContent(change queue.Change[*fleet.Content]) {
	if change.New != nil {
		return
	}
	deployments, err := h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByContent, change.Old.Name)
	if err != nil {
		return
	}
	for _, bd := range deployments {
		h.queue.Add(index.BundleOf(bd))
	}
}

// onValues enqueues the Bundle that waits for a Secret.
func (h *handler) onValues(change queue.Change[*metav1.PartialObjectMetadata]) {
	if change.New != nil && h.source.Awaits(keyOf(change.New)) {
		h.queue.Add(keyOf(change.New))
	}
}

// onDependencies enqueues the Bundles that may be in a dependency cycle with a Bundle whose dependencies have changed.
func (h *handler) onDependencies(change queue.Change[*fleet.Bundle]) {
	older, newer := change.Old, change.New
	if change.Initial {
		return // all Bundles are enqueued at that time
	}
	var before, after []fleet.BundleRef
	namespace := ""
	if older != nil {
		before, namespace = older.Spec.DependsOn, older.Namespace
	}
	if newer != nil {
		after, namespace = newer.Spec.DependsOn, newer.Namespace
	}
	if reconcile.Equal(before, after) {
		return
	}
	all, err := h.app.Bundles.Cache().List(namespace, labels.Everything())
	if err != nil {
		return // only if the index is missing, which it is not
	}
	for _, bundle := range all {
		if len(bundle.Spec.DependsOn) > 0 {
			h.queue.Add(keyOf(bundle))
		}
	}
}
