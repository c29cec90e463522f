package podrunner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// workers is the number of pods that are processed at the same time.
const workers = 8

// Run watches pods until ctx is done. Processes continue after that, and a later Run continues with them. This
// way the API server can be paused.
func (r *Runner) Run(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 2*time.Second))
	store, informer := r.informer(ctx, queue)
	var running wait.Group
	running.Start(func() { informer.RunWithContext(ctx) })
	running.Start(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			r.enqueueWorkloads(queue) // workloads whose pods were deleted while there was no watch
		}
	})
	for range workers {
		running.Start(func() {
			for r.next(ctx, queue, store) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	running.Wait()
}

func (r *Runner) informer(ctx context.Context, queue workqueue.TypedInterface[string]) (cache.Store, cache.Controller) {
	pods := r.options.Client.CoreV1().Pods(metav1.NamespaceAll)
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			queue.Add(key)
		}
	}
	return cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc:  listPods(pods),
			WatchFuncWithContext: watchPods(pods),
		}, r.options.Client),
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    enqueue,
			UpdateFunc: func(_, obj any) { enqueue(obj) },
			DeleteFunc: enqueue,
		},
	})
}

func (r *Runner) enqueueWorkloads(queue workqueue.TypedInterface[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.workloads {
		queue.Add(key)
	}
}

func (r *Runner) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], store cache.Store) bool {
	key, stopped := queue.Get()
	if stopped {
		return false
	}
	defer queue.Done(key)
	if err := r.sync(ctx, key, store); err != nil && ctx.Err() == nil {
		queue.AddRateLimited(key) // the API server is unavailable, or the pod has changed
		return true
	}
	queue.Forget(key)
	return true
}
