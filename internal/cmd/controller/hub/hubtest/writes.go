package hubtest

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
)

// serveWrites serves the writes of a kind past its caches.
func serveWrites[T object, L runtime.Object](c *fake.Clientset, resource string, k *fakeKind[T, L]) {
	c.PrependReactor("create", resource, func(action testing.Action) (bool, runtime.Object, error) {
		created, err := k.Create(action.(testing.CreateAction).GetObject().(T))
		return true, created, err
	})
	c.PrependReactor("update", resource, func(action testing.Action) (bool, runtime.Object, error) {
		updated, err := k.Update(action.(testing.UpdateAction).GetObject().(T))
		return true, updated, err
	})
	c.PrependReactor("patch", resource, func(action testing.Action) (bool, runtime.Object, error) {
		patch := action.(testing.PatchAction)
		patched, err := k.Patch(patch.GetNamespace(), patch.GetName(), patch.GetPatchType(), patch.GetPatch())
		return true, patched, err
	})
	c.PrependReactor("delete", resource, func(action testing.Action) (bool, runtime.Object, error) {
		going := action.(testing.DeleteActionImpl)
		return true, nil, k.Delete(going.GetNamespace(), going.Name, &going.DeleteOptions)
	})
}
