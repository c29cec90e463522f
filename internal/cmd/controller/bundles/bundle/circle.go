package bundle

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// circleOf tells of a Bundle that depends on itself; empty if it does not.
func (h *handler) circleOf(bundle *fleet.Bundle) (string, error) {
	if len(bundle.Spec.DependsOn) == 0 {
		return "", nil
	}
	all, err := h.app.Bundles.Cache().List(bundle.Namespace, labels.Everything())
	if err != nil {
		return "", err
	}
	names := targeting.Circle(bundle, all)
	if len(names) == 0 {
		return "", nil
	}
	return "dependsOn: " + strings.Join(append(names, bundle.Name), " → ") +
		": each waits for the next one; take one of these dependencies away", nil
}

// wakeCircle wakes the Bundles that may be on a circle with one whose dependencies are other ones now.
func (h *handler) wakeCircle(change queue.Change[*fleet.Bundle]) {
	older, newer := change.Old, change.New
	if change.Initial {
		return // all are looked at then
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
		return // only without the cache's index, which is there
	}
	for _, bundle := range all {
		if len(bundle.Spec.DependsOn) > 0 {
			h.queue.Add(keyOf(bundle))
		}
	}
}
