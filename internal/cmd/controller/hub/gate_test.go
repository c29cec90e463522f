package hub

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/lasso/pkg/controller"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// oneKind is a factory with one controller.
type oneKind struct {
	controller.SharedControllerFactory
	of *recordedKind
}

func (f oneKind) ForResourceKind(schema.GroupVersionResource, string, bool) controller.SharedController {
	return f.of
}

func (f oneKind) Start(context.Context, int) error { return nil }

// recordedKind is a controller that records what is enqueued.
type recordedKind struct {
	controller.SharedController
	informer cache.SharedIndexInformer
	handler  controller.SharedControllerHandler
	enqueued []string
}

func (r *recordedKind) Informer() cache.SharedIndexInformer { return r.informer }

func (r *recordedKind) EnqueueKey(key string) { r.enqueued = append(r.enqueued, key) }

func (r *recordedKind) Enqueue(namespace, name string) { r.EnqueueKey(namespace + "/" + name) }

func (r *recordedKind) EnqueueAfter(namespace, name string, after time.Duration) {
	r.EnqueueKey(fmt.Sprintf("%s/%s after %s", namespace, name, after))
}

func (r *recordedKind) RegisterHandler(_ context.Context, _ string, handler controller.SharedControllerHandler) {
	r.handler = handler
}

func TestGate(t *testing.T) {
	inner := &recordedKind{informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Secret{}, 0, cache.Indexers{})}
	if err := inner.informer.GetStore().Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "exists"}}); err != nil {
		t.Fatal(err)
	}
	g := newGate(oneKind{of: inner})
	secrets := g.ForResourceKind(corev1.SchemeGroupVersion.WithResource("secrets"), "Secret", true)
	var handled []string
	secrets.RegisterHandler(t.Context(), "test", controller.SharedControllerHandlerFunc(func(key string, object runtime.Object) (runtime.Object, error) {
		handled = append(handled, key)
		return object, nil
	}))
	handle := func(key string) {
		t.Helper()
		object := &corev1.Secret{}
		if got, err := inner.handler.OnChange(key, object); err != nil || got != runtime.Object(object) {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
	secrets.Enqueue("ns", "missing")
	secrets.EnqueueAfter("ns", "chore", time.Minute)
	secrets.EnqueueAfter("ns", "chore", time.Hour)
	if err := g.Start(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	handle("ns/exists")
	secrets.Enqueue("ns", "dropped")
	secrets.EnqueueAfter("ns", "dropped", time.Minute)
	if len(handled)+len(inner.enqueued) > 0 {
		t.Errorf("a standby handled %v and enqueued %v", handled, inner.enqueued)
	}

	g.open()
	slices.Sort(inner.enqueued)
	if diff := cmp.Diff([]string{"ns/chore after 1m0s", "ns/exists", "ns/missing after 0s"}, inner.enqueued); diff != "" {
		t.Errorf("enqueued when it leads (-want +got):\n%s", diff)
	}
	inner.enqueued = nil
	secrets.Enqueue("ns", "later")
	secrets.EnqueueAfter("ns", "later", time.Second)
	handle("ns/exists")
	if diff := cmp.Diff([]string{"ns/later", "ns/later after 1s"}, inner.enqueued); diff != "" {
		t.Errorf("enqueued afterwards (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ns/exists"}, handled); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}
