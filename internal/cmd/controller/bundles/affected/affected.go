package affected

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Watcher enqueues Bundles. Errors of index lookups cannot occur: index.Add has created the indexes.
type Watcher struct {
	app       *hub.App
	selection func(*fleet.Bundle) *targeting.Selection
	enqueue   func(bundle types.NamespacedName)
}

// New returns a Watcher. selection returns which clusters a Bundle selects, or nil if its selectors do not parse.
// enqueue must not block.
func New(a *hub.App, selection func(*fleet.Bundle) *targeting.Selection, enqueue func(types.NamespacedName)) *Watcher {
	return &Watcher{app: a, selection: selection, enqueue: enqueue}
}

// Watch registers the Watcher. It must be called before the caches start.
func (w *Watcher) Watch() error {
	w.app.Liveness.OnChange(w.onLiveness)
	return errors.Join(
		reconcile.WatchChanges(w.app.Bundles.Informer(), w.onDependencies),
		reconcile.WatchChanges(w.app.Clusters.Informer(), w.onCluster),
		reconcile.WatchChanges(w.app.ClusterGroups.Informer(), w.onGroup),
		reconcile.WatchChanges(w.app.BundleNamespaceMappings.Informer(), w.onMapping),
		reconcile.WatchChanges(w.app.AllNamespaces.Informer(), w.onNamespace),
		reconcile.WatchChanges(w.app.Contents.Informer(), w.onContent),
	)
}

func (w *Watcher) onCluster(change reconcile.Change[*fleet.Cluster]) {
	older, newer := change.Old, change.New
	if change.Initial || older != nil && newer != nil && !clusterMatters(older, newer) {
		return
	}
	cluster := cmp.Or(newer, older)
	w.enqueueDeployed(cluster.Status.Namespace)
	if newer != nil {
		w.enqueueSelecting(newer)
	}
	// A running pass may still deploy to the cluster by its old labels.
	if older != nil && (newer == nil || !maps.Equal(older.Labels, newer.Labels)) {
		w.enqueueSelecting(older)
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
func (w *Watcher) enqueueDeployed(namespace string) {
	if namespace == "" {
		return
	}
	deployments, err := w.app.BundleDeployments.Cache().List(namespace, labels.Everything())
	if err != nil {
		return
	}
	for _, bd := range deployments {
		if bundle := index.BundleOf(bd); bundle.Name != "" {
			w.enqueue(bundle)
		}
	}
}

// maxEffort limits the comparisons for one changed cluster, because the changes of all clusters of all workspaces are handled
// one after another.
const maxEffort = 1 << 20

// enqueueSelecting enqueues the Bundles that target a cluster, or report that it does not exist. If it takes too many
// comparisons to find them, it enqueues the remaining Bundles that may do so.
func (w *Watcher) enqueueSelecting(cluster *fleet.Cluster) {
	groups, err := w.app.GroupsIn(cluster.Namespace)
	if err != nil {
		return
	}
	left := maxEffort
	for _, bundle := range w.mayPick(cluster, groups.Names(cluster)) {
		selection := w.selection(bundle)
		if selection == nil {
			continue
		}
		if left >= 0 {
			left -= selection.Effort(cluster, groups)
		}
		if left < 0 || selection.NamesCluster(cluster) || selection.Picks(cluster, groups) {
			w.enqueue(reconcile.KeyOf(bundle))
		}
	}
}

func (w *Watcher) onGroup(change reconcile.Change[*fleet.ClusterGroup]) {
	older, newer := change.Old, change.New
	if change.Initial || older != nil && newer != nil &&
		maps.Equal(older.Labels, newer.Labels) && reconcile.Equal(older.Spec, newer.Spec) {
		return
	}
	group := cmp.Or(newer, older)
	for _, bundle := range w.reaching(group.Namespace) {
		if selection := w.selection(bundle); selection != nil && selection.UsesGroups() {
			w.enqueue(reconcile.KeyOf(bundle))
		}
	}
}

// NameFreed enqueues the Bundles that may use the name of a deleted BundleDeployment.
func (w *Watcher) NameFreed(gone *fleet.BundleDeployment) {
	clusters, err := w.app.Clusters.Cache().GetByIndex(index.ClustersByNamespace, gone.Namespace)
	if err != nil {
		return
	}
	for _, cluster := range clusters {
		w.enqueue(types.NamespacedName{Namespace: cluster.Namespace, Name: gone.Name})
		for _, mapping := range w.mappingsTo(cluster.Namespace) {
			w.enqueue(types.NamespacedName{Namespace: mapping.Workspace(), Name: gone.Name})
		}
	}
}

// onLiveness enqueues the Bundles of a cluster whose agent has stopped or resumed reporting, because they count that
// cluster.
func (w *Watcher) onLiveness(key types.NamespacedName) {
	cluster, err := reconcile.Optional(w.app.Clusters.Cache().Get(key.Namespace, key.Name))
	if err == nil && cluster != nil {
		w.enqueueDeployed(cluster.Status.Namespace)
	}
}

// onContent restores a Content that is still needed.
func (w *Watcher) onContent(change reconcile.Change[*fleet.Content]) {
	if change.New != nil {
		return
	}
	deployments, err := w.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByContent, change.Old.Name)
	if err != nil {
		return
	}
	for _, bd := range deployments {
		w.enqueue(index.BundleOf(bd))
	}
}

// onDependencies enqueues the Bundles that may be in a dependency cycle with a Bundle whose dependencies or labels have
// changed. Dependencies may select labels.
func (w *Watcher) onDependencies(change reconcile.Change[*fleet.Bundle]) {
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
	same := reconcile.Equal(before, after)
	if same && !relabelled(older, newer) {
		return
	}
	all, err := w.app.Bundles.Cache().List(namespace, labels.Everything())
	if err != nil || same && !slices.ContainsFunc(all, dependsByLabels) {
		return // errors only if the index is missing, which it is not
	}
	for _, bundle := range all {
		if len(bundle.Spec.DependsOn) > 0 {
			w.enqueue(reconcile.KeyOf(bundle))
		}
	}
}

// relabelled reports whether other labels of a Bundle that has dependencies count than before.
func relabelled(older, newer *fleet.Bundle) bool {
	return older != nil && newer != nil && len(newer.Spec.DependsOn) > 0 && !maps.Equal(targeting.BundleLabels(older), targeting.BundleLabels(newer))
}

func dependsByLabels(bundle *fleet.Bundle) bool {
	return slices.ContainsFunc(bundle.Spec.DependsOn, func(ref fleet.BundleRef) bool { return ref.Selector != nil })
}
