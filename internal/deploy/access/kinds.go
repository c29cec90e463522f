package access

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// kindsLife is how long the results of discovery are valid. The server's version and the kinds of aggregated APIs
	// change without an event.
	kindsLife = 10 * time.Minute
	// kindsPause is the minimum time between two discoveries because of an unknown kind.
	kindsPause = 2 * time.Second
)

// kinds caches the discovery of the downstream API server: its version and its kinds. Discovery runs once, and
// again after a change of a CRD.
type kinds struct {
	clock     func() time.Time
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper

	mu           sync.Mutex
	capabilities *chartutil.Capabilities
	looked       time.Time
}

func newKinds(config *rest.Config, clock func() time.Time) (*kinds, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	cached := memory.NewMemCacheClient(client)
	return &kinds{clock: clock, discovery: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

// Reset invalidates the cache.
func (k *kinds) Reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reset()
}

func (k *kinds) reset() {
	k.capabilities = nil
	k.looked = k.clock()
	k.mapper.Reset()
}

// Capabilities returns the capabilities of the server, for charts.
func (k *kinds) Capabilities() (*chartutil.Capabilities, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock().Sub(k.looked) > kindsLife {
		k.reset()
	}
	if k.capabilities == nil {
		version, err := k.discovery.ServerVersion()
		if err != nil {
			return nil, fmt.Errorf("reading the API server's version: %w", err)
		}
		versions, err := action.GetVersionSet(k.discovery)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's kinds: %w", err)
		}
		k.capabilities = &chartutil.Capabilities{
			APIVersions: versions,
			KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
			HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
		}
	}
	return k.capabilities.Copy(), nil
}

// Mapping returns the resource of a kind. If the kind is unknown, discovery runs once more, because the kind may
// be new.
func (k *kinds) Mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) && k.Refresh() {
		mapping, err = k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("finding kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	return mapping, nil
}

// Served returns a kind in a version that the API server serves: another one if that of gvk is no longer served. If the server of
// an aggregated API does not answer, its kinds may exist, so the error is not that of an unknown kind.
func (k *kinds) Served(gvk schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	_, err := k.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err == nil || errors.Is(err, memory.ErrCacheNotFound) || apierrors.IsNotFound(err) {
		var mapping *meta.RESTMapping
		if mapping, err = k.mapper.RESTMapping(gvk.GroupKind()); err == nil {
			return mapping.GroupVersionKind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("finding kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
}

// Namespaced reports whether a kind is namespaced.
func (k *kinds) Namespaced(gvk schema.GroupVersionKind) (bool, error) {
	mapping, err := k.Mapping(gvk)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// Refresh invalidates the cache, unless that was done within kindsPause. It reports whether it did.
func (k *kinds) Refresh() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock().Sub(k.looked) < kindsPause {
		return false
	}
	k.reset()
	return true
}
