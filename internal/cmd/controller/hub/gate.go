package hub

import (
	"context"
	"sync"
	"time"

	"github.com/rancher/lasso/pkg/controller"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// gate keeps handlers from running on a standby. The workers run and drop what the caches report, because lasso would
// otherwise store every change until its workers start, without a limit.
//
//	Register ─► keys it enqueues: kept ────────────┐
//	caches ─► queues ─► workers ─► closed: dropped │
//	                            └► open: handlers ◄┴─ kept keys, all objects
type gate struct {
	controller.SharedControllerFactory

	mu    sync.Mutex
	phase phase
	kinds map[schema.GroupVersionResource]controller.SharedController
	kept  map[schema.GroupVersionResource]map[types.NamespacedName]time.Duration
}

// phase is what happens to keys.
type phase int

const (
	// registering: keys are kept, also of objects that do not exist.
	registering phase = iota
	// standing: keys are dropped. All objects are enqueued later.
	standing
	// working: keys are enqueued.
	working
)

func newGate(factory controller.SharedControllerFactory) *gate {
	return &gate{
		SharedControllerFactory: factory,
		kinds:                   map[schema.GroupVersionResource]controller.SharedController{},
		kept:                    map[schema.GroupVersionResource]map[types.NamespacedName]time.Duration{},
	}
}

// ForResourceKind implements controller.SharedControllerFactory. All controllers of the package are created with it.
func (g *gate) ForResourceKind(gvr schema.GroupVersionResource, kind string, namespaced bool) controller.SharedController {
	of := g.SharedControllerFactory.ForResourceKind(gvr, kind, namespaced)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kinds[gvr] = of
	return gated{SharedController: of, gate: g, gvr: gvr}
}

// Start starts the workers, which drop keys until open.
func (g *gate) Start(ctx context.Context, workers int) error {
	g.mu.Lock()
	g.phase = standing
	g.mu.Unlock()
	return g.SharedControllerFactory.Start(ctx, workers)
}

// open lets handlers run, and enqueues all objects and the kept keys. A key that was just dropped is enqueued afterwards.
func (g *gate) open() {
	g.mu.Lock()
	g.phase = working
	kinds, kept := g.kinds, g.kept
	g.kept = nil
	g.mu.Unlock()
	for gvr, of := range kinds {
		for _, key := range of.Informer().GetStore().ListKeys() {
			of.EnqueueKey(key)
		}
		for key, after := range kept[gvr] {
			of.EnqueueAfter(key.Namespace, key.Name, after)
		}
	}
}

// admits reports whether keys are enqueued and handled now.
func (g *gate) admits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase == working
}

// keep keeps a key for open, unless it is enqueued then anyway. It reports false if the gate is open.
func (g *gate) keep(gvr schema.GroupVersionResource, key types.NamespacedName, after time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == registering {
		if g.kept[gvr] == nil {
			g.kept[gvr] = map[types.NamespacedName]time.Duration{}
		}
		if earlier, found := g.kept[gvr][key]; !found || after < earlier {
			g.kept[gvr][key] = after
		}
	}
	return g.phase != working
}

// gated is a controller behind the gate.
type gated struct {
	controller.SharedController
	gate *gate
	gvr  schema.GroupVersionResource
}

// RegisterHandler implements controller.SharedController.
func (c gated) RegisterHandler(ctx context.Context, name string, handler controller.SharedControllerHandler) {
	c.SharedController.RegisterHandler(ctx, name, controller.SharedControllerHandlerFunc(func(key string, object runtime.Object) (runtime.Object, error) {
		if !c.gate.admits() {
			return object, nil // nothing is reconciled on a standby
		}
		return handler.OnChange(key, object)
	}))
}

// Enqueue implements controller.SharedController.
func (c gated) Enqueue(namespace, name string) {
	if !c.gate.keep(c.gvr, types.NamespacedName{Namespace: namespace, Name: name}, 0) {
		c.SharedController.Enqueue(namespace, name)
	}
}

// EnqueueAfter implements controller.SharedController.
func (c gated) EnqueueAfter(namespace, name string, after time.Duration) {
	if !c.gate.keep(c.gvr, types.NamespacedName{Namespace: namespace, Name: name}, after) {
		c.SharedController.EnqueueAfter(namespace, name, after)
	}
}
