package downstream

import (
	"cmp"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watchOthers enqueues refused BundleDeployments when an object changes that the refusal depends on.
func (h *handler) watchOthers() error {
	return errors.Join(
		reconcile.WatchChanges(h.app.Bundles.Informer(), h.onBundle),
		reconcile.WatchChanges(h.app.Clusters.Informer(), h.onCluster),
		reconcile.WatchChanges(h.app.ClusterGroups.Informer(), h.onGroup),
		reconcile.WatchChanges(h.app.BundleNamespaceMappings.Informer(), h.onMapping),
		reconcile.WatchChanges(h.app.AllNamespaces.Informer(), h.onNamespace),
	)
}

// retry enqueues the refused BundleDeployments that a change concerns.
func (h *handler) retry(concern func(bd types.NamespacedName, of claim) bool) {
	for _, bd := range h.refusals.those(concern) {
		h.queue.Add(bd)
	}
}

func (h *handler) onBundle(change reconcile.Change[*fleet.Bundle]) {
	older, newer := change.Old, change.New
	if newer == nil || older != nil && older.UID == newer.UID && older.Generation == newer.Generation &&
		maps.Equal(older.Labels, newer.Labels) && maps.Equal(older.Annotations, newer.Annotations) {
		return
	}
	h.retry(func(_ types.NamespacedName, of claim) bool { return of.bundle == reconcile.KeyOf(newer) })
}

func (h *handler) onCluster(change reconcile.Change[*fleet.Cluster]) {
	older, newer := change.Old, change.New
	var before, after types.NamespacedName // the Secrets with their kubeconfigs
	if older != nil {
		before = clusters.KubeconfigSecret(older)
	}
	if newer != nil {
		after = clusters.KubeconfigSecret(newer)
	}
	if before != after {
		h.enqueueFor(original{kindSecret, before})
		h.enqueueFor(original{kindSecret, after})
	}
	if newer != nil && (older == nil || older.UID != newer.UID || !maps.Equal(older.Labels, newer.Labels)) {
		h.retry(func(_ types.NamespacedName, of claim) bool { return of.cluster == reconcile.KeyOf(newer) })
	}
}

func (h *handler) onGroup(change reconcile.Change[*fleet.ClusterGroup]) {
	older, newer := change.Old, change.New
	if older != nil && newer != nil && maps.Equal(older.Labels, newer.Labels) && reconcile.Equal(older.Spec, newer.Spec) {
		return
	}
	group := cmp.Or(newer, older)
	h.retry(func(_ types.NamespacedName, of claim) bool { return of.cluster.Namespace == group.Namespace })
}

func (h *handler) onMapping(change reconcile.Change[*fleet.BundleNamespaceMapping]) {
	mapping := cmp.Or(change.New, change.Old)
	h.retry(func(_ types.NamespacedName, of claim) bool { return of.bundle.Namespace == mapping.Namespace })
}

func (h *handler) onNamespace(change reconcile.Change[*corev1.Namespace]) {
	older, newer := change.Old, change.New
	if newer == nil || older != nil && maps.Equal(older.Labels, newer.Labels) && maps.Equal(older.Annotations, newer.Annotations) {
		return
	}
	h.retry(func(_ types.NamespacedName, of claim) bool { return of.cluster.Namespace == newer.Name })
}
