package queue

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// Change is what happened to an object.
type Change[T any] struct {
	// Old is the state before, the zero value (nil) for an object that appeared.
	// New is the state after, nil for one that is gone.
	Old, New T
	// Initial is true for objects that were there when the watch began.
	Initial bool
}

// Watch tells of every change to the objects of an informer. It must not block, and
// is to be called before the informer starts.
func Watch[T any](informer cache.SharedIndexInformer, tell func(Change[T])) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if object, ok := obj.(T); ok {
				tell(Change[T]{New: object, Initial: initial})
			}
		},
		UpdateFunc: func(before, after any) {
			older, ok := before.(T)
			newer, okToo := after.(T)
			if ok && okToo {
				tell(Change[T]{Old: older, New: newer})
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if object, ok := obj.(T); ok {
				tell(Change[T]{Old: object})
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}
