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
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/reconcile"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watch enqueues Bundles when something changes that decides where they are deployed.
func (h *handler) watch() error {
	h.app.Config.OnChange(h.onConfig)
	return errors.Join(
		h.affected.Watch(),
		reconcile.WatchChanges(h.app.Bundles.Informer(), h.onBundle),
		reconcile.WatchChanges(h.app.BundleDeployments.Informer(), h.onDeployment),
	)
}

// coalescing is how long a rollout that may continue waits, so that several changes cause one pass.
const coalescing = 20 * time.Millisecond

// onConfig enqueues all Bundles when their values have to be moved.
func (h *handler) onConfig(old, current config.Config) {
	if old.PlainValuesInSecrets == current.PlainValuesInSecrets {
		return
	}
	all, err := h.app.Bundles.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return // only before the caches are synced; then all Bundles are enqueued anyway
	}
	for _, bundle := range all {
		h.queue.Add(reconcile.KeyOf(bundle))
	}
}

func (h *handler) onBundle(change reconcile.Change[*fleet.Bundle]) {
	older, newer := change.Old, change.New
	switch {
	case newer == nil:
		h.cache.forget(older.UID)
		h.queue.Add(reconcile.KeyOf(older))
	case older == nil || bundleMatters(older, newer):
		h.queue.Add(reconcile.KeyOf(newer))
	}
}

// bundleMatters reports whether more than the status has changed. Our finalizer matters if another client removed it.
func bundleMatters(older, newer *fleet.Bundle) bool {
	return older.UID != newer.UID || older.Generation != newer.Generation ||
		hasFinalizer(older) && !hasFinalizer(newer) || !maps.Equal(older.Labels, newer.Labels) || !maps.Equal(older.Annotations, newer.Annotations) ||
		(older.DeletionTimestamp == nil) != (newer.DeletionTimestamp == nil)
}

// onDeployment restores a BundleDeployment that was deleted, and lets a deleted Bundle complete after its last one. If
// the BundleDeployment belonged to another Bundle, a Bundle of the same name may now use the place.
func (h *handler) onDeployment(change reconcile.Change[*fleet.BundleDeployment]) {
	gone := change.Old
	if change.New != nil {
		h.onDeploymentThere(change)
		return
	}
	h.values.Gone(gone)
	bundle := index.BundleOf(gone)
	h.mutations.gone(bundle, gone)
	if bundle.Name != "" {
		h.queue.AddPaced(bundle, 0)
	}
	h.affected.NameFreed(gone)
}

// contentLag is how long a Content may reach the cache later than the BundleDeployments that name it.
const contentLag = time.Second

// restoreAfter is how long a BundleDeployment that another client has edited waits to be restored. Another client may edit
// it again and again, and its agent deploys each change.
const restoreAfter = 10 * time.Second

// onDeploymentThere continues a rollout, restores edited objects, and recreates a Content that was deleted just before
// a BundleDeployment named it again.
func (h *handler) onDeploymentThere(change reconcile.Change[*fleet.BundleDeployment]) {
	older, newer := change.Old, change.New
	bundle := index.BundleOf(newer)
	if h.values.CheckReported(older, newer) {
		h.queue.Add(bundle)
	}
	h.restoreEdited(bundle, change)
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

// restoreEdited enqueues a Bundle if another client has edited one of its BundleDeployments.
func (h *handler) restoreEdited(bundle types.NamespacedName, change reconcile.Change[*fleet.BundleDeployment]) {
	if change.Old != nil && bundle.Name != "" && rulesdelivery.IsEdited(change.Old, change.New) && !h.mutations.wrote(bundle, change.New) {
		h.queue.AddAfter(bundle, restoreAfter)
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
		h.queue.AddPaced(bundle, coalescing)
	}
}

// onValues enqueues the Bundle that waits for a Secret.
func (h *handler) onValues(change reconcile.Change[*metav1.PartialObjectMetadata]) {
	if change.New != nil && h.source.Awaits(reconcile.KeyOf(change.New)) {
		h.queue.Add(reconcile.KeyOf(change.New))
	}
}
