package watch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watchPatience is how long all lists of a watch may fail until the watch counts as failed.
const watchPatience = 20 * time.Second

var errSilent = errors.New("the API server does not answer")

// Watches watches the metadata of deployed objects. There is one watch for each resource in use; it selects all
// objects with a label, whatever its value. The reconcile fetches the changed objects. An object that loses the
// label looks deleted.
type Watches struct {
	client metadata.Interface
	// label selects the objects.
	label string
	// changed is called for each changed object, with the label that it has or had.
	changed func(resource schema.GroupVersionResource, object *metav1.PartialObjectMetadata)
	// synced is called when a resource has synced, when its watch has failed or works again, and when the API server no longer
	// serves it.
	synced func(users []string)
	clock  func() time.Time

	running sync.WaitGroup
	mu      sync.Mutex
	stopped bool
	watched map[schema.GroupVersionResource]*watched
	used    map[string]map[schema.GroupVersionResource]bool // by user
}

// watched is the watch of one resource.
type watched struct {
	informer cache.SharedIndexInformer
	unserved bool // the API server does not serve the resource
	// failing is the time since which no list has succeeded, at first the start of the watch. It is zero after a list. version is
	// the version of the cache at that time.
	failing  time.Time
	version  string
	err      error // of the last list
	reported bool  // the users know that the watch has failed
	stop     chan struct{}
	users    map[string]bool
}

// NewSetWatches watches the objects of sets. It calls changed with the hash of the set of each changed object.
func NewSetWatches(client metadata.Interface, clock func() time.Time, changed func(string), synced func([]string)) *Watches {
	return NewWatches(fleet.LabelSetHash, client, clock, func(_ schema.GroupVersionResource, object *metav1.PartialObjectMetadata) {
		changed(object.Labels[fleet.LabelSetHash])
	}, synced)
}

// NewWatches watches the objects with a label.
func NewWatches(label string, client metadata.Interface, clock func() time.Time,
	changed func(schema.GroupVersionResource, *metav1.PartialObjectMetadata), synced func([]string)) *Watches {
	return &Watches{
		client: client, label: label, clock: clock, changed: changed, synced: synced,
		watched: map[schema.GroupVersionResource]*watched{},
		used:    map[string]map[schema.GroupVersionResource]bool{},
	}
}

// Follow replaces the resources that user watches. It stops watches that have no user left.
func (w *Watches) Follow(user string, resources map[schema.GroupVersionResource]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	for resource := range resources {
		if w.watched[resource] == nil {
			w.start(resource)
		}
		w.watched[resource].users[user] = true
	}
	for resource := range w.used[user] {
		if resources[resource] {
			continue
		}
		delete(w.watched[resource].users, user)
		if len(w.watched[resource].users) == 0 {
			close(w.watched[resource].stop)
			delete(w.watched, resource)
		}
	}
	w.used[user] = resources
	if len(resources) == 0 {
		delete(w.used, user)
	}
}

// start watches a resource. The caller holds the lock.
func (w *Watches) start(resource schema.GroupVersionResource) {
	stop := make(chan struct{})
	objects := reporting{w.client.Resource(resource), func(err error, lists bool) { w.answered(resource, err, lists) }}
	informer := NewMetadataInformer(w.client, objects, func(options *metav1.ListOptions) {
		options.LabelSelector = w.label
	})
	// Cannot fail: the informer is new.
	handler, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { w.notify(resource, object) },
		UpdateFunc: func(old, object any) {
			if w.labelOf(old) != w.labelOf(object) {
				w.notify(resource, old) // another set took the object over
			}
			w.notify(resource, object)
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			w.notify(resource, object)
		},
	})
	w.watched[resource] = &watched{informer: informer, failing: w.clock(), stop: stop, users: map[string]bool{}}
	w.running.Go(func() { informer.Run(stop) })
	w.running.Go(func() {
		if cache.WaitForCacheSync(stop, handler.HasSynced) {
			w.synced(w.usersOf(resource))
		}
	})
}

// reporting is a client that reports the results of its lists and watches. A watch that begins with all objects is a list that may
// still fail after the first answer, so that only its error counts.
type reporting struct {
	metadata.ResourceInterface
	answered func(err error, lists bool)
}

// List implements metadata.ResourceInterface.
func (r reporting) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	found, err := r.ResourceInterface.List(ctx, options)
	r.answered(err, true)
	return found, err
}

// Watch implements metadata.ResourceInterface.
func (r reporting) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	found, err := r.ResourceInterface.Watch(ctx, options)
	r.answered(err, err != nil && options.SendInitialEvents != nil)
	return found, err
}

// answered notes the result of a request for a resource. The informer repeats failed requests. Users are also notified when the
// resource is served again: objects may have been deleted before the informer listed them.
func (w *Watches) answered(resource schema.GroupVersionResource, err error, lists bool) {
	w.mu.Lock()
	found := w.watched[resource]
	was := found != nil && found.unserved
	changed := found != nil && found.answered(err, lists, w.clock())
	changed = changed || was && !found.unserved
	w.mu.Unlock()
	if users := w.usersOf(resource); changed && len(users) > 0 {
		w.synced(users)
	}
}

// answered notes a result and reports whether to notify the users. They are notified of each request for a resource that is not
// served, because API discovery may learn of the change later. If the API server cannot be reached, the watch has not failed:
// single objects cannot be read either.
func (f *watched) answered(err error, lists bool, now time.Time) (changed bool) {
	unserved := isUnserved(err)
	if err == nil || unserved {
		f.unserved = unserved
	}
	switch {
	case unserved || !lists:
		return unserved
	case err == nil:
		changed = f.reported
		f.failing, f.err, f.reported = time.Time{}, nil, false
		return changed
	case f.works():
		if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			return false
		}
		f.failing, f.version, f.reported = now, f.informer.LastSyncResourceVersion(), false
	}
	f.err = err
	changed = !f.reported && f.hasFailed(now)
	f.reported = f.reported || changed
	return changed
}

// works reports whether objects were listed since the last failure.
func (f *watched) works() bool {
	return f.failing.IsZero() || f.informer.LastSyncResourceVersion() != f.version
}

func (f *watched) hasFailed(now time.Time) bool {
	return !f.unserved && !f.works() && now.Sub(f.failing) > watchPatience
}

// Failed returns the resources of a user whose watches have failed, with the last errors. Their caches are outdated.
func (w *Watches) Failed(user string) map[schema.GroupVersionResource]error {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := map[schema.GroupVersionResource]error{}
	for resource := range w.used[user] {
		if found := w.watched[resource]; found.hasFailed(w.clock()) {
			failed[resource] = cmp.Or(found.err, errSilent)
		}
	}
	return failed
}

// isUnserved reports whether the API server does not serve the resource of a request. That a single object does not exist is
// another error.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Unserved reports whether the API server has stopped to serve a resource that is watched, such as an old version of a kind.
func (w *Watches) Unserved(resource schema.GroupVersionResource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.watched[resource]
	return found != nil && found.unserved
}

// Stop stops all watches and waits until they have ended.
func (w *Watches) Stop() {
	w.mu.Lock()
	for _, found := range w.watched {
		close(found.stop)
	}
	w.watched, w.used = nil, nil
	w.stopped = true
	w.mu.Unlock()
	w.running.Wait()
}

func (w *Watches) notify(resource schema.GroupVersionResource, object any) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok && found.Labels[w.label] != "" {
		w.changed(resource, found)
	}
}

func (w *Watches) labelOf(object any) string {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		return found.Labels[w.label]
	}
	return ""
}

func (w *Watches) usersOf(resource schema.GroupVersionResource) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var users []string
	if found := w.watched[resource]; found != nil {
		for user := range found.users {
			users = append(users, user)
		}
	}
	return users
}

// Cached returns the cached metadata of an object, nil if it does not exist, and whether the cache can answer. If a
// watch has failed before it synced, or its resource is not served, every object counts as known and missing, so that the caller
// fetches it.
func (w *Watches) Cached(resource schema.GroupVersionResource, namespace, name string) (found *metav1.PartialObjectMetadata, known bool) {
	w.mu.Lock()
	watched := w.watched[resource]
	if watched == nil {
		w.mu.Unlock()
		return nil, false
	}
	unserved, failed := watched.unserved, watched.hasFailed(w.clock())
	w.mu.Unlock()
	switch {
	case unserved:
		return nil, true
	case !watched.informer.HasSynced():
		return nil, failed
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	object, exists, err := watched.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil, true // the in-memory store returns no errors
	}
	found, _ = object.(*metav1.PartialObjectMetadata)
	return found, true
}

// NewMetadataInformer returns an informer of the metadata of objects, as selected by the client and by choose.
func NewMetadataInformer(client metadata.Interface, objects metadata.ResourceInterface, choose func(*metav1.ListOptions)) cache.SharedIndexInformer {
	requests := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			choose(&options)
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			choose(&options)
			return objects.Watch(ctx, options)
		},
	}, client)
	informer := cache.NewSharedIndexInformer(requests, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// Cannot fail: the informer is not running.
	_ = informer.SetTransform(strip)
	return informer
}

// strip strips an object's metadata to the fields that are used.
func strip(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{
		TypeMeta: full.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, Namespace: full.Namespace, UID: full.UID, ResourceVersion: full.ResourceVersion,
			CreationTimestamp: full.CreationTimestamp, DeletionTimestamp: full.DeletionTimestamp,
			Finalizers: full.Finalizers,
			Labels:     stripLabels(full.Labels),
		},
	}, nil
}

// stripLabels returns only the labels that select objects.
func stripLabels(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for _, label := range []string{fleet.LabelSetHash, fleet.LabelBundleDeployment} {
		if value, there := labels[label]; there {
			kept[label] = value
		}
	}
	return kept
}
