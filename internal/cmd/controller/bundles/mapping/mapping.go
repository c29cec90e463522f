// Package mapping tells users of BundleNamespaceMappings that do not do what they were made for. What a mapping does
// is the Bundles' affair.
//
//	BundleNamespaceMapping ─► its selectors ─► Event
//
// A mapping has no status, so an Event is all there is to see on it. The Bundles it concerns have a condition.
package mapping

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/app"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

type handler struct {
	app   *app.Context
	queue *queue.Queue
}

// Register watches BundleNamespaceMappings.
func Register(ctx context.Context, a *app.Context) error {
	h := &handler{app: a}
	h.queue = queue.New(queue.Options{Name: "mapping", Workers: 1, Log: a.Log}, h.handle)
	if err := queue.Watch(a.BundleNamespaceMappings.Informer(), h.changed); err != nil {
		return err
	}
	go h.queue.Run(ctx, a.Begun, a.BundleNamespaceMappings.Informer().HasSynced)
	return nil
}

// changed asks for a look at a mapping that is new to this process or says something else than before.
func (h *handler) changed(change queue.Change[*fleet.BundleNamespaceMapping]) {
	if change.New != nil && (change.Old == nil || change.Old.Generation != change.New.Generation) {
		h.queue.Add(types.NamespacedName{Namespace: change.New.Namespace, Name: change.New.Name})
	}
}

func (h *handler) handle(_ context.Context, key types.NamespacedName) error {
	mapping, err := reconcile.Optional(h.app.BundleNamespaceMappings.Cache().Get(key.Namespace, key.Name))
	if err != nil || mapping == nil || mapping.DeletionTimestamp != nil || !h.app.Owns(mapping) {
		return err
	}
	if reason, message := trouble(mapping); reason != "" {
		h.app.Recorder.Event(mapping, corev1.EventTypeWarning, reason, message)
	}
	return nil
}

// trouble is what a user has to see to; no reason is none.
func trouble(mapping *fleet.BundleNamespaceMapping) (reason, message string) {
	err := targeting.NewMapping(mapping).Err()
	switch {
	case err == nil:
		return "", ""
	case errors.Is(err, targeting.ErrMappingIncomplete):
		return fleet.ReasonMappingIncomplete, err.Error()
	default:
		return fleet.ReasonSelectorInvalid, err.Error() + "; correct that selector: until then, what was deployed through the mapping stays as it is"
	}
}
