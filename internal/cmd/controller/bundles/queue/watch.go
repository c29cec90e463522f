package queue

import (
	"fmt"

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

// Watch calls handle for every change to the objects of an informer. It must be called before the informer starts. handle
// must not block.
func Watch[T any](informer cache.SharedIndexInformer, handle func(Change[T])) error {
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
