package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	lassocache "github.com/rancher/lasso/pkg/cache"
	"github.com/rancher/lasso/pkg/client"
	"github.com/rancher/lasso/pkg/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/catchup"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/strip"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/undecodable"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// workers is the number of objects of one kind that are reconciled in parallel. Handlers wait only for short requests.
const workers = 10

// ErrNotSynced means that a kind could not be listed and watched before the deadline of Start.
var ErrNotSynced = errors.New("the caches did not fill in time")

// scope is one selection of objects per kind, with its caches and controllers.
type scope struct {
	caches      *caches
	controllers *gate
}

type scopeOptions struct {
	// undecodable tracks objects of our group. May be nil.
	undecodable *undecodable.Objects
	namespaces  map[schema.GroupVersionKind]string
	selections  map[schema.GroupVersionKind]func(*metav1.ListOptions)
	// few are the kinds with few objects. Their lists are streamed.
	few []schema.GroupVersionKind
}

func newScope(clients client.SharedClientFactory, o scopeOptions) *scope {
	selections := map[schema.GroupVersionKind]lassocache.TweakListOptionsFunc{}
	for gvk, selection := range o.selections {
		selections[gvk] = selection
	}
	pages := map[schema.GroupVersionKind]bool{}
	for _, gvk := range o.few {
		pages[gvk] = false
	}
	shared := &caches{
		SharedCacheFactory: lassocache.NewSharedCachedFactory(clients, &lassocache.SharedCacheFactoryOptions{
			KindNamespace: o.namespaces,
			KindTweakList: selections,
			// For the API server, pages cost a fraction of a long streamed list. A short one saves a request.
			DefaultDisableWatchList: true,
			KindDisableWatchList:    pages,
		}),
		undecodable: o.undecodable,
		transform:   strip.New(),
		informers:   map[schema.GroupVersionKind]cache.SharedIndexInformer{},
		failures:    map[schema.GroupVersionKind]*failure{},
	}
	return &scope{
		caches: shared,
		controllers: newGate(controller.NewSharedControllerFactory(shared, &controller.SharedControllerFactoryOptions{
			DefaultWorkers:         workers,
			KindRateLimiter:        rateLimiters(),
			SyncOnlyChangedObjects: true,
		})),
	}
}

// caches drops unused fields of each object and remembers why a kind cannot be listed.
type caches struct {
	lassocache.SharedCacheFactory

	undecodable *undecodable.Objects
	transform   cache.TransformFunc

	mu        sync.Mutex
	informers map[schema.GroupVersionKind]cache.SharedIndexInformer
	failures  map[schema.GroupVersionKind]*failure
}

// failure is the error of one attempt to list or watch a kind.
type failure struct{ err error }

// pending is a kind that has not been listed yet.
type pending struct {
	kind string
	// last is the last failure, or nil.
	last *failure
}

func (p pending) String() string {
	if p.last == nil {
		return p.kind
	}
	return p.kind + " (" + p.last.err.Error() + ")"
}

// ForResourceKind creates the informer of a resource at the first call.
func (c *caches) ForResourceKind(gvr schema.GroupVersionResource, kind string, namespaced bool) (cache.SharedIndexInformer, error) {
	informer, err := c.SharedCacheFactory.ForResourceKind(gvr, kind, namespaced)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	gvk := gvr.GroupVersion().WithKind(kind)
	if _, prepared := c.informers[gvk]; prepared {
		return informer, nil
	}
	c.informers[gvk] = informer
	if err := informer.SetTransform(c.transform); err != nil {
		return nil, fmt.Errorf("preparing cache of %s: %w", kind, err)
	}
	if gvk.Group == fleet.SchemeGroupVersion.Group {
		if err := c.undecodable.ForgetDeleted(informer); err != nil {
			return nil, fmt.Errorf("preparing cache of %s: %w", kind, err)
		}
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		c.mu.Lock()
		c.failures[gvk] = &failure{err}
		c.mu.Unlock()
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return nil, fmt.Errorf("preparing cache of %s: %w", kind, err)
	}
	return informer, nil
}

// unsynced returns the kinds that have not been listed yet, with the last error.
func (c *caches) unsynced() (out []pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for gvk, informer := range c.informers {
		if !informer.HasSynced() {
			out = append(out, pending{gvk.Kind, c.failures[gvk]})
		}
	}
	return out
}

// ofTargets returns the caches from which the targets of Bundles are computed.
func (c *caches) ofTargets() (out []catchup.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{"Namespace", "Cluster", "ClusterGroup", "Bundle", "BundleNamespaceMapping"} {
		k := kinds()[name]
		if informer, used := c.informers[k.gvk]; used {
			out = append(out, catchup.Kind{Resource: k.gvk.GroupVersion().WithResource(k.resource), Cache: informer.GetStore()})
		}
	}
	return out
}

// awaitSync waits until nothing is missing or ctx ends. It returns an error if a kind is missing at the deadline that
// could not be listed. It keeps waiting for long lists, because a restarted process would have to list them again.
func awaitSync(ctx context.Context, deadline time.Duration, missing func() []pending, tell func(kinds string)) error {
	timeout := time.NewTicker(deadline)
	defer timeout.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		kinds := missing()
		if len(kinds) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			if slices.ContainsFunc(kinds, func(p pending) bool { return p.last != nil }) {
				return fmt.Errorf("%w: %s", ErrNotSynced, textOf(kinds))
			}
			tell(textOf(kinds))
		case <-again.C:
		}
	}
}

func textOf(kinds []pending) string {
	texts := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		texts = append(texts, kind.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
