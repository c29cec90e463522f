package affected

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// mappingsTo returns the mappings that lead to the clusters of a workspace.
func (w *Watcher) mappingsTo(workspace string) (leading []targeting.Mapping) {
	mappings, err := index.Mappings(w.app, "")
	if err != nil || len(mappings) == 0 {
		return nil
	}
	namespace, err := reconcile.Optional(w.app.AllNamespaces.Cache().Get(workspace))
	if err != nil || namespace == nil {
		return nil // the namespace's creation enqueues the Bundles that are mapped to it
	}
	for _, mapping := range mappings {
		if mapping.LeadsTo(namespace) {
			leading = append(leading, mapping)
		}
	}
	return leading
}

// reaching returns the Bundles that may go to clusters of a workspace: its own, and those that are mapped to it.
func (w *Watcher) reaching(workspace string) []*fleet.Bundle {
	out, err := w.app.Bundles.Cache().List(workspace, labels.Everything())
	if err != nil {
		return nil
	}
	return append(out, w.mappedTo(workspace)...)
}

// mappedTo returns the Bundles of other workspaces that may go to clusters of a workspace.
func (w *Watcher) mappedTo(workspace string) (out []*fleet.Bundle) {
	for _, mapping := range w.mappingsTo(workspace) {
		if mapping.Workspace() != workspace {
			out = append(out, w.taken(mapping)...)
		}
	}
	return out
}

// taken returns the Bundles that a mapping selects.
func (w *Watcher) taken(mapping targeting.Mapping) (bundles []*fleet.Bundle) {
	listed, err := w.app.Bundles.Cache().List(mapping.Workspace(), labels.Everything())
	if err != nil {
		return nil
	}
	for _, bundle := range listed {
		if mapping.Takes(bundle) {
			bundles = append(bundles, bundle)
		}
	}
	return bundles
}

// onMapping enqueues the Bundles that a mapping selects or selected before.
func (w *Watcher) onMapping(change reconcile.Change[*fleet.BundleNamespaceMapping]) {
	older, newer := change.Old, change.New
	if change.Initial || older != nil && newer != nil && !mappingMatters(older, newer) {
		return
	}
	for _, mapping := range []*fleet.BundleNamespaceMapping{older, newer} {
		if mapping != nil {
			w.enqueueMapped(targeting.NewMapping(mapping))
		}
	}
}

func mappingMatters(older, newer *fleet.BundleNamespaceMapping) bool {
	return !reconcile.Equal(older.BundleSelector, newer.BundleSelector) ||
		!reconcile.Equal(older.NamespaceSelector, newer.NamespaceSelector)
}

func (w *Watcher) enqueueMapped(mapping targeting.Mapping) {
	for _, bundle := range w.taken(mapping) {
		w.enqueue(reconcile.KeyOf(bundle))
	}
}

// onNamespace enqueues the Bundles whose mapping to a namespace has changed, and those that the namespace has begun or
// ceased to refuse.
func (w *Watcher) onNamespace(change reconcile.Change[*corev1.Namespace]) {
	older, newer := change.Old, change.New
	if change.Initial || older != nil && newer != nil && maps.Equal(older.Labels, newer.Labels) && maps.Equal(older.Annotations, newer.Annotations) {
		return
	}
	mappings, err := index.Mappings(w.app, "")
	if err != nil {
		return
	}
	for _, mapping := range mappings {
		if leadsTo(mapping, older) != leadsTo(mapping, newer) || refusedBy(mapping, older) != refusedBy(mapping, newer) || mapping.Broken() {
			w.enqueueMapped(mapping)
		}
	}
}

func leadsTo(mapping targeting.Mapping, namespace *corev1.Namespace) bool {
	return namespace != nil && mapping.LeadsTo(namespace)
}

func refusedBy(mapping targeting.Mapping, namespace *corev1.Namespace) bool {
	return namespace != nil && mapping.RefusedBy(namespace)
}

// mayPick returns a superset of the Bundles that target a cluster: those that the index finds for its labels and
// groups, and those mapped to its workspace.
func (w *Watcher) mayPick(cluster *fleet.Cluster, groups []string) []*fleet.Bundle {
	seen := map[types.UID]bool{}
	var out []*fleet.Bundle
	for _, key := range index.KeysOf(cluster.Namespace, cluster, groups) {
		found, err := w.app.Bundles.Cache().GetByIndex(index.BundlesByPick, key)
		if err != nil {
			return nil // only if the index is missing, which it is not
		}
		for _, bundle := range found {
			if !seen[bundle.UID] {
				seen[bundle.UID] = true
				out = append(out, bundle)
			}
		}
	}
	return append(out, w.mappedTo(cluster.Namespace)...)
}
