package kube

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Relisting makes an informer list its objects again after its server was unreachable. The server may have been
// restored from an older state with lower resource versions. A watch from the last version would be accepted but
// receive nothing until the server reaches that version, and the informer would never learn of changes that were
// undone.
//
//	watch ✗ no connection ─► watch ✗ 410 Gone, made up here ─► list ─► watch
//
// A watch that ends and can be reopened immediately continues from its last version. The result is for one
// informer.
func Relisting(objects cache.ListerWatcher) cache.ListerWatcher {
	return &relisting{ListerWatcherWithContext: cache.ToListerWatcherWithContext(objects), objects: objects}
}

type relisting struct {
	cache.ListerWatcherWithContext
	objects cache.ListerWatcher

	mu     sync.Mutex
	broken bool // the last request got no response
}

// IsWatchListSemanticsUnSupported forwards a question that client-go asks fakes.
func (r *relisting) IsWatchListSemanticsUnSupported() bool {
	asked, ok := r.objects.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && asked.IsWatchListSemanticsUnSupported()
}

// List implements cache.ListerWatcher, for callers without a context.
func (r *relisting) List(options metav1.ListOptions) (runtime.Object, error) {
	return r.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher, for callers without a context.
func (r *relisting) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return r.WatchWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (r *relisting) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := r.ListerWatcherWithContext.ListWithContext(ctx, options)
	r.heard(ctx, err)
	return list, err
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (r *relisting) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	goesOn := options.ResourceVersion != "" && options.ResourceVersion != "0" && options.SendInitialEvents == nil
	if goesOn && r.mended() {
		return nil, apierrors.NewResourceExpired("the server was unreachable and may have been restored: listing again")
	}
	watching, err := r.ListerWatcherWithContext.WatchWithContext(ctx, options)
	r.heard(ctx, err)
	return watching, err
}

// heard records whether there was a response, even an error.
func (r *relisting) heard(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the caller gave up
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

// mended returns true, once, if the last request got no response.
func (r *relisting) mended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.broken
	r.broken = false
	return was
}
