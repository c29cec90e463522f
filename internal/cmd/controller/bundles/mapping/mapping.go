package mapping

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

type handler struct {
	app   *hub.App
	queue *queue.Queue
}

// Register watches BundleNamespaceMappings.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a}
	h.queue = queue.New(queue.Options{Name: "mapping", Workers: 1, Log: a.Log}, h.handle)
	err := errors.Join(
		reconcile.WatchChanges(a.BundleNamespaceMappings.Informer(), h.changed),
		reconcile.WatchChanges(a.AllNamespaces.Informer(), h.onNamespace),
	)
	if err != nil {
		return err
	}
	go h.queue.Run(ctx, a.MayReconcile, a.BundleNamespaceMappings.Informer().HasSynced, a.AllNamespaces.Informer().HasSynced)
	return nil
}

// changed enqueues a mapping that is new to this process or whose generation has changed.
func (h *handler) changed(change reconcile.Change[*fleet.BundleNamespaceMapping]) {
	if change.New != nil && (change.Old == nil || change.Old.Generation != change.New.Generation) {
		h.queue.Add(types.NamespacedName{Namespace: change.New.Namespace, Name: change.New.Name})
	}
}

// onNamespace enqueues the mappings that a namespace has begun to refuse.
func (h *handler) onNamespace(change reconcile.Change[*corev1.Namespace]) {
	older, newer := change.Old, change.New
	if change.Initial || newer == nil {
		return
	}
	listed, err := h.app.BundleNamespaceMappings.Cache().List("", labels.Everything())
	if err != nil {
		return // only if the index is missing, which it is not
	}
	for _, mapping := range listed {
		ready := targeting.NewMapping(mapping)
		if ready.RefusedBy(newer) && (older == nil || !ready.RefusedBy(older)) {
			h.queue.Add(types.NamespacedName{Namespace: mapping.Namespace, Name: mapping.Name})
		}
	}
}

func (h *handler) handle(_ context.Context, key types.NamespacedName) error {
	mapping, err := reconcile.Optional(h.app.BundleNamespaceMappings.Cache().Get(key.Namespace, key.Name))
	if err != nil || mapping == nil || mapping.DeletionTimestamp != nil || !h.app.Owns(mapping) {
		return err
	}
	namespaces, err := h.app.AllNamespaces.Cache().List(labels.Everything())
	if err != nil {
		return err
	}
	if reason, message := trouble(mapping, namespaces); reason != "" {
		h.app.Recorder.Event(mapping, corev1.EventTypeWarning, reason, message)
	}
	return nil
}

// trouble returns a problem that a user has to fix. reason is empty if nothing is wrong.
func trouble(mapping *fleet.BundleNamespaceMapping, namespaces []*corev1.Namespace) (reason, message string) {
	ready := targeting.NewMapping(mapping)
	err := ready.Err()
	switch {
	case err == nil:
		return refused(ready, namespaces)
	case errors.Is(err, targeting.ErrMappingIncomplete):
		return conditions.ReasonMappingIncomplete, err.Error()
	default:
		return conditions.ReasonSelectorInvalid, err.Error() + "; correct that selector: until then, what was deployed through the mapping stays as it is"
	}
}

// refused reports the namespaces that do not accept the Bundles mapped to them.
func refused(mapping targeting.Mapping, namespaces []*corev1.Namespace) (reason, message string) {
	var refusing []string
	for _, namespace := range namespaces {
		if mapping.RefusedBy(namespace) {
			refusing = append(refusing, namespace.Name)
		}
	}
	if len(refusing) == 0 {
		return "", ""
	}
	return conditions.ReasonMappingRefused, targeting.RefusedMessage(mapping.Workspace(), refusing)
}
