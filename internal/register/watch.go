package register

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// watchOwn signals changed when the agent's identity, its bootstrap secret or its configuration is added,
// changed or deleted, until ctx ends. The group is done shortly after. Events carry no content: the agent reads
// the objects when it needs them.
func watchOwn(ctx context.Context, local LocalClients, namespace string, changed chan<- struct{}) *sync.WaitGroup {
	enqueue := func() {
		select {
		case changed <- struct{}{}:
		default: // a signal is already pending
		}
	}
	var watching sync.WaitGroup
	secrets, configMaps := local.CoreV1().Secrets(namespace), local.CoreV1().ConfigMaps(namespace)
	for _, own := range []struct {
		kind    runtime.Object
		objects cache.ListerWatcher
	}{
		{&corev1.Secret{}, listerWatcher(local, names.Agent, listed(secrets.List), secrets.Watch)},
		{&corev1.Secret{}, listerWatcher(local, names.AgentBootstrap, listed(secrets.List), secrets.Watch)},
		{&corev1.ConfigMap{}, listerWatcher(local, names.Agent, listed(configMaps.List), configMaps.Watch)},
	} {
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: own.objects,
			ObjectType:    own.kind,
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { enqueue() },
				UpdateFunc: func(before, after any) { enqueue() },
				DeleteFunc: func(any) { enqueue() },
			},
		})
		watching.Go(func() { informer.RunWithContext(ctx) })
	}
	return &watching
}

// listed converts a typed client's List to a ListWithContextFunc.
func listed[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) cache.ListWithContextFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
}

// listerWatcher lists and watches only the object with this name.
func listerWatcher(local LocalClients, name string, list cache.ListWithContextFunc, watch cache.WatchFuncWithContext) cache.ListerWatcher {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = only
			return list(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.FieldSelector = only
			return watch(ctx, options)
		},
	}, local)
}
