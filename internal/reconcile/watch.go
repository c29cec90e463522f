package reconcile

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Change is a change of an object.
type Change[T any] struct {
	// Old is the state before the change, or nil for an object that was created. New is the state after the change, or
	// nil for an object that was deleted.
	Old, New T
	// Initial is true for objects of the initial list.
	Initial bool
}

// WatchChanges calls handle for every change to the objects of an informer. It must be called before the informer
// starts. handle must not block.
func WatchChanges[T any](informer cache.SharedIndexInformer, handle func(Change[T])) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if object, ok := obj.(T); ok {
				handle(Change[T]{New: object, Initial: initial})
			}
		},
		UpdateFunc: func(before, after any) {
			older, ok := before.(T)
			newer, okToo := after.(T)
			if ok && okToo {
				handle(Change[T]{Old: older, New: newer})
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if object, ok := obj.(T); ok {
				handle(Change[T]{Old: object})
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

// Watch calls enqueue with the keys that resolve returns for every object that is added, changed or deleted. For a
// deleted object, resolve gets the last known state. For a change it is called with both the old and the new state,
// so that a former owner is enqueued as well. resolve and enqueue must not block. Resyncs without a change are skipped.
// Call Watch before the informer starts.
func Watch[T Object](informer cache.SharedIndexInformer, resolve func(T) []types.NamespacedName, enqueue func(types.NamespacedName)) error {
	return WatchChanges(informer, func(change Change[T]) {
		states := slices.DeleteFunc([]T{change.Old, change.New}, func(state T) bool { return isNil(state) })
		if len(states) == 2 && sameVersion(states[0], states[1]) {
			return
		}
		told := map[types.NamespacedName]bool{}
		for _, state := range states {
			enqueueOnce(resolve(state), told, enqueue)
		}
	})
}

// WatchNew is Watch for lists that many objects share: it calls enqueue with the keys that resolve returns for the new
// state and did not return for the old one.
func WatchNew[T Object](informer cache.SharedIndexInformer, resolve func(T) []types.NamespacedName, enqueue func(types.NamespacedName)) error {
	return WatchChanges(informer, func(change Change[T]) {
		known := map[types.NamespacedName]bool{}
		if !isNil(change.Old) {
			enqueueOnce(resolve(change.Old), known, func(types.NamespacedName) {})
		}
		if !isNil(change.New) {
			enqueueOnce(resolve(change.New), known, enqueue)
		}
	})
}

// enqueueOnce calls enqueue with the keys that are not known, and adds them.
func enqueueOnce(keys []types.NamespacedName, known map[types.NamespacedName]bool, enqueue func(types.NamespacedName)) {
	for _, key := range keys {
		if !known[key] {
			known[key] = true
			enqueue(key)
		}
	}
}

func sameVersion(old, current Object) bool {
	return old.GetResourceVersion() == current.GetResourceVersion() && old.GetResourceVersion() != ""
}
