package bundle

import (
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// valuesGrace is how long the values Secret of a Bundle may be missing or not match before that is an error. The
// Bundle and its Secret are written one after the other, in either order.
const valuesGrace = 20 * time.Second

// awaited tracks the Bundles whose values Secret is missing or does not match.
type awaited struct {
	mu      sync.Mutex
	bundles map[types.NamespacedName]awaitedValues
}

type awaitedValues struct {
	hash  string
	since time.Time
}

func newAwaited() *awaited { return &awaited{bundles: map[types.NamespacedName]awaitedValues{}} }

// begin must be called before the Secret is read, so that later events are not missed.
func (a *awaited) begin(bundle *fleet.Bundle, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bundles[keyOf(bundle)].hash != bundle.Spec.ValuesHash {
		a.bundles[keyOf(bundle)] = awaitedValues{bundle.Spec.ValuesHash, now}
	}
}

func (a *awaited) end(bundle types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.bundles, bundle)
}

// left returns the remaining grace period.
func (a *awaited) left(bundle types.NamespacedName, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bundles[bundle].since.Add(valuesGrace).Sub(now)
}

func (a *awaited) has(bundle types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, found := a.bundles[bundle]
	return found
}

// awaitsValues reports whether a Bundle is left unchanged for now because its values Secret may still arrive. The
// Bundle is enqueued again when the Secret appears or changes, and when the grace period ends.
func (h *handler) awaitsValues(in input) bool {
	key := keyOf(in.bundle)
	if !errors.Is(in.failure, errNoValues) && !errors.Is(in.failure, rulesdelivery.ErrValuesHash) {
		h.awaited.end(key)
		return false
	}
	left := h.awaited.left(key, h.app.Clock())
	if left <= 0 {
		return false
	}
	h.queue.AddAfter(key, left)
	return true
}

// onValues enqueues the Bundle that waits for a Secret.
func (h *handler) onValues(change queue.Change[*metav1.PartialObjectMetadata]) {
	if change.New != nil && h.awaited.has(keyOf(change.New)) {
		h.queue.Add(keyOf(change.New))
	}
}
