// Package catchup lets a standby that takes over wait until its caches are current. Each kind has its own watch, and one can
// be interrupted while the others go on: a BundleDeployment would look like an orphan while the cache lacks its Cluster.
//
//	API server ─► one consistent list of names and versions ─► the cache has each of them ─► the controllers work
package catchup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

const (
	// lastWrites is how long the watches of the other kinds may take to deliver a predecessor's last writes. It made them
	// before it released its lease, or long before the lease expired.
	lastWrites = 300 * time.Millisecond
	// limit is how long a cache may lag before the process ends. A new process lists all objects. It is longer than the
	// 30 seconds for which client-go delays a failed watch.
	limit = time.Minute
	// shortest and longest limit the interval at which a cache is compared.
	shortest, longest = 50 * time.Millisecond, time.Second
	// page is the number of objects in a page. It is higher than that of the caches, because metadata is small.
	page = 1000
)

// ErrLagging means that a cache did not become current before the limit.
var ErrLagging = errors.New("the cache of this process is not current")

// Kind is a kind with the cache that decisions are based on.
type Kind struct {
	Resource schema.GroupVersionResource
	Cache    cache.Store
}

// Connect is Await with a client for cfg.
func Connect(ctx context.Context, cfg *rest.Config, kinds []Kind, log *slog.Logger) error {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("building the client that lists metadata: %w", err)
	}
	return Await(ctx, client, kinds, log)
}

// Await returns when the caches have all objects that the API server has now, in this version or a later one, and none that
// was deleted before. It returns ErrLagging if that takes longer than a minute.
func Await(ctx context.Context, client metadata.Interface, kinds []Kind, log *slog.Logger) error {
	delivered := time.NewTimer(lastWrites)
	defer delivered.Stop()
	limited, cancel := context.WithTimeoutCause(ctx, limit, ErrLagging)
	defer cancel()
	for _, kind := range kinds {
		if err := kind.await(limited, client, log); err != nil {
			return err
		}
	}
	select {
	case <-delivered.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k Kind) await(ctx context.Context, client metadata.Interface, log *slog.Logger) error {
	var missing map[string]string // the versions in the first list; later lists only show deletions
	var deleted []string          // keys that were in the cache, but not in the first list
	for wait := shortest; ; wait = min(2*wait, longest) {
		live, err := k.list(ctx, client)
		isLive := func(key string) bool { _, exists := live[key]; return exists }
		if err == nil && missing == nil {
			missing, deleted = maps.Clone(live), slices.DeleteFunc(k.Cache.ListKeys(), isLive)
		}
		maps.DeleteFunc(missing, func(key, version string) bool { return err == nil && !isLive(key) || k.has(key, version) })
		deleted = slices.DeleteFunc(deleted, func(key string) bool { return isLive(key) || !k.has(key, "") })
		if err == nil && len(missing)+len(deleted) == 0 {
			return nil
		}
		if wait == longest {
			log.Info("waiting for the cache to become current", "kinds", k.Resource.GroupResource().String(), "objects", len(missing)+len(deleted), "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %d %s: %w", len(missing)+len(deleted), k.Resource.GroupResource(), context.Cause(ctx)), err)
		}
	}
}

// list returns the versions of all objects by the keys of caches.
func (k Kind) list(ctx context.Context, client metadata.Interface) (map[string]string, error) {
	versions := map[string]string{}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(k.Resource).List(ctx, options)
	})
	pages.PageSize = page
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		versions[cache.MetaObjectToName(object).String()] = object.GetResourceVersion()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", k.Resource.GroupResource(), err)
	}
	return versions, nil
}

// has reports whether the cache has this version of an object or a later one. Any version is later than "".
func (k Kind) has(key, version string) bool {
	cached, exists, err := k.Cache.GetByKey(key)
	if err != nil || !exists {
		return false
	}
	object, err := meta.Accessor(cached)
	if err != nil {
		return false
	}
	if version == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version)
	return err != nil || order >= 0 // only numbers can be compared
}
