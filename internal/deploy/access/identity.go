package access

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/clientset"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// FieldManager is the field manager of deployed objects. If it changes, fields of the old manager stay behind
	// without an owner.
	FieldManager = names.AgentFieldManager
	// Parallelism is the number of objects that an operation reads or writes at a time.
	Parallelism = 8
)

// Identity connects to the downstream API server as one account: the agent itself, or a service account that
// deploys. All identities share the results of API discovery. Identity implements Helm's RESTClientGetter.
type Identity struct {
	*kinds
	// Account is "<namespace>/<name>" of a service account, "" for the agent itself.
	Account   string
	config    *rest.Config
	HTTP      *http.Client
	Clientset *clientset.Clientset
	Dynamic   dynamic.Interface

	mu      sync.Mutex
	clients map[schema.GroupVersion]rest.Interface
}

// NewAgent returns the identity of the agent itself. The config must come from WithBounds.
func NewAgent(config *rest.Config, clock func() time.Time) (*Identity, error) {
	known, err := newKinds(config, clock)
	if err != nil {
		return nil, err
	}
	return newIdentity(config, known)
}

// newIdentity creates the clients of an account.
func newIdentity(config *rest.Config, known *kinds) (*Identity, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the downstream API server: %w", err)
	}
	typed, err := clientset.NewWith(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for the downstream API server: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for the downstream API server: %w", err)
	}
	return &Identity{
		kinds: known, config: config, HTTP: client, Clientset: typed, Dynamic: dynamicClient,
		clients: map[schema.GroupVersion]rest.Interface{},
	}, nil
}

// as returns an identity that impersonates a service account.
func (i *Identity) as(namespace, account string) (*Identity, error) {
	config := rest.CopyConfig(i.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account}
	identity, err := newIdentity(config, i.kinds)
	if err != nil {
		return nil, err
	}
	identity.Account = namespace + "/" + account
	return identity, nil
}

// isNamespaced reports whether a resource is namespaced. It returns false for a resource that the API server does
// not know.
func (i *Identity) isNamespaced(resource schema.GroupResource) bool {
	gvk, err := i.mapper.KindFor(resource.WithVersion(""))
	if err != nil {
		return false
	}
	namespaced, err := i.Namespaced(gvk)
	return err == nil && namespaced
}

// Client returns a REST client for unstructured objects of a group and version.
func (i *Identity) Client(gv schema.GroupVersion) (rest.Interface, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if client, ok := i.clients[gv]; ok {
		return client, nil
	}
	config := rest.CopyConfig(i.config)
	content := resource.UnstructuredPlusDefaultContentConfig()
	config.ContentConfig = content
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(config, i.HTTP)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", gv, err)
	}
	i.clients[gv] = client
	return client, nil
}

// ToRESTConfig implements Helm's RESTClientGetter. It returns a copy, because callers change it.
func (i *Identity) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(i.config), nil }

// ToDiscoveryClient implements Helm's RESTClientGetter.
func (i *Identity) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return i.discovery, nil
}

// ToRESTMapper implements Helm's RESTClientGetter.
func (i *Identity) ToRESTMapper() (meta.RESTMapper, error) { return i.mapper, nil }
