package deploy

import (
	"fmt"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// kindsLife is how long what is known of the server is believed without being told otherwise: its
	// version, and kinds served by other API servers, change without an event.
	kindsLife = 10 * time.Minute
	// kindsPause is the least time between two looks because a kind was missing.
	kindsPause = 2 * time.Second
)

// kinds is what is known of the downstream API server: its version and the kinds it serves. It is looked up
// once for all, and again after a change of the CRDs.
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

// forget makes the next look a fresh one.
func (k *kinds) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reset()
}

func (k *kinds) reset() {
	k.capabilities = nil
	k.looked = k.clock()
	k.mapper.Reset()
}

// known returns what charts are told about the server.
func (k *kinds) known() (*chartutil.Capabilities, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock().Sub(k.looked) > kindsLife {
		k.reset()
	}
	if k.capabilities == nil {
		version, err := k.discovery.ServerVersion()
		if err != nil {
			return nil, fmt.Errorf("asking the API server for its version: %w", err)
		}
		versions, err := action.GetVersionSet(k.discovery)
		if err != nil {
			return nil, fmt.Errorf("asking the API server for its kinds: %w", err)
		}
		k.capabilities = &chartutil.Capabilities{
			APIVersions: versions,
			KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
			HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
		}
	}
	return k.capabilities.Copy(), nil
}

// mapping finds how the server serves a kind. A kind it does not know is looked for once more, in case it
// is new.
func (k *kinds) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) && k.lookAgain() {
		mapping, err = k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("finding kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	return mapping, nil
}

// namespaced tells whether objects of a kind are in a namespace.
func (k *kinds) namespaced(gvk schema.GroupVersionKind) (bool, error) {
	mapping, err := k.mapping(gvk)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// lookAgain forgets what is known unless that was done just now.
func (k *kinds) lookAgain() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock().Sub(k.looked) < kindsPause {
		return false
	}
	k.reset()
	return true
}
