package bundle

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// circleOf returns a message about a Bundle that depends on itself, or an empty string.
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
		": each waits for the next one; remove one of these dependencies", nil
}

// wakeCircle enqueues the Bundles that may be in a dependency cycle with a Bundle whose dependencies have changed.
func (h *handler) wakeCircle(change queue.Change[*fleet.Bundle]) {
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
