package register

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/names"
)

// watchSecrets fills changed whenever the agent's identity or its bootstrap secret appears, changes or goes,
// until ctx ends; the group is done a moment after. What they hold is read when it is needed: an event
// only says that it is time to look.
func watchSecrets(ctx context.Context, local kubernetes.Interface, namespace string, changed chan<- struct{}) *sync.WaitGroup {
	nudge := func() {
		select {
		case changed <- struct{}{}:
		default: // there is one waiting already
		}
	}
	var watching sync.WaitGroup
	for _, name := range []string{names.Agent, names.AgentBootstrap} {
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: listerWatcher(local, namespace, name),
			ObjectType:    &corev1.Secret{},
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { nudge() },
				UpdateFunc: func(before, after any) { nudge() },
				DeleteFunc: func(any) { nudge() },
			},
		})
		watching.Go(func() { informer.RunWithContext(ctx) })
	}
	return &watching
}

func listerWatcher(local kubernetes.Interface, namespace, name string) cache.ListerWatcher {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	secrets := local.CoreV1().Secrets(namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = only
			return secrets.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = only
			return secrets.Watch(ctx, options)
		},
	}, local)
}
