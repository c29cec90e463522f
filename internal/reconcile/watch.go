package reconcile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Watch calls nudge with the keys that resolve returns for every object that is added, changed or deleted. For a
// deleted object, resolve gets the last known state. For a change it is called with both the old and the new state,
// so that a former owner is enqueued as well. resolve and nudge must not block. Resyncs without a change are skipped.
// Call Watch before the informer starts.
func Watch[T Object](informer cache.SharedIndexInformer, resolve func(T) []types.NamespacedName, nudge func(types.NamespacedName)) error {
	tell := func(objs ...any) {
		told := map[types.NamespacedName]bool{}
		for _, obj := range objs {
			item, ok := obj.(T)
			if !ok {
				continue
			}
			for _, key := range resolve(item) {
				if !told[key] {
					told[key] = true
					nudge(key)
				}
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell(obj) },
		UpdateFunc: func(old, current any) {
			if !sameVersion(old, current) {
				tell(old, current)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			tell(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

// WatchNew is Watch for lists that many objects share: it calls nudge with the keys that resolve returns for the new
// state and did not return for the old one.
func WatchNew[T Object](informer cache.SharedIndexInformer, resolve func(T) []types.NamespacedName, nudge func(types.NamespacedName)) error {
	tell := func(old, current any) {
		known := map[types.NamespacedName]bool{}
		if item, ok := old.(T); ok {
			for _, key := range resolve(item) {
				known[key] = true
			}
		}
		item, ok := current.(T)
		if !ok {
			return
		}
		for _, key := range resolve(item) {
			if !known[key] {
				known[key] = true
				nudge(key)
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(nil, obj) },
		UpdateFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

func sameVersion(old, current any) bool {
	a, okA := old.(Object)
	b, okB := current.(Object)
	return okA && okB && a.GetResourceVersion() == b.GetResourceVersion() && a.GetResourceVersion() != ""
}
