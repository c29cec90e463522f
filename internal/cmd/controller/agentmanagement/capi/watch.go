package capi

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
)

// rediscovery is the interval at which discovery is asked for the kind. It is one small request.
const rediscovery = 10 * time.Second

// resource is the resource of Clusters of Cluster API.
const resource = "clusters"

// source is the hub's API server.
type source struct {
	// served returns the version to watch, or "" if the kind is not installed.
	served func(context.Context) (string, error)
	// informer returns an informer of all Clusters of Cluster API.
	informer func(version string) cache.SharedIndexInformer
	// find reads a Cluster of Cluster API from the store, or nil if it does not exist.
	find func(ctx context.Context, version string, key types.NamespacedName) (*capirule.Cluster, error)
}

func newSource(cfg *rest.Config) (source, error) {
	found, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return source{}, fmt.Errorf("building the client for discovery: %w", err)
	}
	client, err := dynamic.NewForConfig(kube.Watching(cfg))
	if err != nil {
		return source{}, fmt.Errorf("building the client for Cluster API: %w", err)
	}
	clusters := func(version string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: capirule.Group, Version: version, Resource: resource}
	}
	return source{
		served: func(ctx context.Context) (string, error) { return servedVersion(ctx, found.RESTClient()) },
		informer: func(version string) cache.SharedIndexInformer {
			return dynamicinformer.NewFilteredDynamicInformer(client, clusters(version), metav1.NamespaceAll, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer()
		},
		find: func(ctx context.Context, version string, key types.NamespacedName) (*capirule.Cluster, error) {
			// The controller may list Clusters, but not get them.
			named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()}
			list, err := client.Resource(clusters(version)).Namespace(key.Namespace).List(ctx, named)
			if err != nil || len(list.Items) == 0 {
				return nil, err
			}
			return capirule.Parse(&list.Items[0]), nil
		},
	}, nil
}

func servedVersion(ctx context.Context, client rest.Interface) (string, error) {
	for _, version := range capirule.Versions() {
		list := &metav1.APIResourceList{}
		err := client.Get().AbsPath("apis", capirule.Group, version).Do(ctx).Into(list)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("discovering %s/%s: %w", capirule.Group, version, err)
		}
		for _, served := range list.APIResources {
			if served.Name == resource {
				return version, nil
			}
		}
	}
	return "", nil
}

// watch keeps a watch of Clusters of Cluster API while it is enabled and the kind is installed.
type watch struct {
	log    *slog.Logger
	source source
	// seen is called for each Cluster that is added, changed or deleted. changed is called when all are listed, and when they are no
	// longer watched because that was disabled.
	seen    func(cluster *capirule.Cluster, deleted bool)
	changed func()
	woken   chan struct{}

	mu      sync.Mutex // guards the fields below
	running string     // the version that is watched
	stop    context.CancelFunc
	store   cache.Indexer // nil until all are listed
}

func newWatch(log *slog.Logger, from source, seen func(*capirule.Cluster, bool), changed func()) *watch {
	return &watch{log: log, source: from, seen: seen, changed: changed, woken: make(chan struct{}, 1)}
}

// wake makes run check at once whether the watch is enabled.
func (w *watch) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // a wake-up is pending
	}
}

// current returns the Clusters of Cluster API, or nil if they are not known.
func (w *watch) current() cache.Indexer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.store
}

// version returns the version that is watched, or "".
func (w *watch) version() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

// keysIn returns the Clusters of Cluster API in a namespace, or all of them for "".
func (w *watch) keysIn(namespace string) (keys []types.NamespacedName) {
	known := w.current()
	if known == nil {
		return nil
	}
	list := known.List()
	if namespace != "" {
		list, _ = known.ByIndex(cache.NamespaceIndex, namespace) // newSource adds the index
	}
	for _, one := range list {
		if cluster, ok := one.(*capirule.Cluster); ok {
			keys = append(keys, keyOf(cluster))
		}
	}
	return keys
}

// run starts and stops the watch until ctx ends.
func (w *watch) run(ctx context.Context, enabled func() bool) {
	again := time.NewTicker(rediscovery)
	defer again.Stop()
	for {
		if err := w.adjust(ctx, enabled()); err != nil && ctx.Err() == nil {
			w.log.Warn("discovering Cluster API failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
		case <-again.C:
		}
	}
}

// adjust starts a watch of the served version, and ends that of another one.
func (w *watch) adjust(ctx context.Context, enabled bool) error {
	if !enabled {
		if w.end() {
			w.changed()
		}
		return nil
	}
	version, err := w.source.served(ctx)
	if err != nil {
		return err
	}
	if version == w.version() {
		return nil
	}
	w.end()
	if version == "" {
		return nil
	}
	return w.begin(ctx, version)
}

// end ends the watch and reports whether there was one.
func (w *watch) end() (ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ended = w.stop != nil; ended {
		w.stop()
		w.log.Info("clusters of Cluster API are no longer watched", "version", w.running)
	}
	w.running, w.stop, w.store = "", nil, nil
	return ended
}

func (w *watch) begin(ctx context.Context, version string) error {
	informer := w.source.informer(version)
	if err := informer.SetTransform(parse); err != nil {
		return fmt.Errorf("preparing the watch of Cluster API: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	if err := reconcile.WatchChanges(informer, func(change reconcile.Change[*capirule.Cluster]) {
		switch {
		case change.New != nil:
			w.seen(change.New, false)
		case ctx.Err() == nil:
			w.seen(change.Old, true)
		}
	}); err != nil {
		stop()
		return fmt.Errorf("preparing the watch of Cluster API: %w", err)
	}
	w.mu.Lock()
	w.running, w.stop = version, stop
	w.mu.Unlock()
	go informer.RunWithContext(ctx)
	go w.awaitSync(ctx, informer)
	w.log.Info("clusters of Cluster API are watched", "version", version)
	return nil
}

// awaitSync lets the Clusters be used when all are listed: before, a missing one would count as deleted.
func (w *watch) awaitSync(ctx context.Context, informer cache.SharedIndexInformer) {
	if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
		return
	}
	w.mu.Lock()
	if ctx.Err() != nil {
		w.mu.Unlock()
		return // end was called meanwhile
	}
	w.store = informer.GetIndexer()
	w.mu.Unlock()
	w.changed()
}

// parse is the transform of the watch: the store holds only what the rule reads.
func parse(obj any) (any, error) {
	if object, ok := obj.(*unstructured.Unstructured); ok {
		return capirule.Parse(object), nil
	}
	return obj, nil // a tombstone, or already parsed
}

func keyOf(cluster *capirule.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
}
