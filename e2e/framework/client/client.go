// Package client is the small typed client that the demo and the user stories use: it creates what a
// user creates, and waits, by watching, for what a user waits for.
package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/fleet-hub/fleet/internal/kube"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Resources of fleet.cattle.io, as the functions of this package name them.
const (
	Clusters             = "clusters"
	ClusterGroups        = "clustergroups"
	ClusterRegistrations = "clusterregistrations"
	Tokens               = "clusterregistrationtokens"
	Bundles              = "bundles"
	BundleDeployments    = "bundledeployments"
	Mappings             = "bundlenamespacemappings"
)

// ErrNotInTime is wrapped by the error of a wait that ended before what it waited for.
var ErrNotInTime = errors.New("not in time")

// Client reaches one cluster.
type Client struct {
	// Kube is for the kinds of Kubernetes itself, Fleet for those of fleet.cattle.io.
	Kube  kubernetes.Interface
	Fleet rest.Interface
}

// New is a client with the rights of config and without a rate limit.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	typed, err := kube.FleetClient(config, nil)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", fleet.SchemeGroupVersion, err)
	}
	return &Client{Kube: core, Fleet: typed}, nil
}

// EnsureNamespace creates a namespace that may exist.
func (c *Client) EnsureNamespace(ctx context.Context, name string) error {
	_, err := c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// Object is a kind of fleet.cattle.io.
type Object interface {
	runtime.Object
	metav1.Object
}

// Create makes an object and reads back what the API server made of it.
func (c *Client) Create(ctx context.Context, resource string, object Object) error {
	err := c.Fleet.Post().Namespace(object.GetNamespace()).Resource(resource).Body(object).Do(ctx).Into(object)
	if err != nil {
		return fmt.Errorf("creating %s %s/%s: %w", resource, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// Get reads an object into the given one.
func (c *Client) Get(ctx context.Context, resource, namespace, name string, into runtime.Object) error {
	if err := c.Fleet.Get().Namespace(namespace).Resource(resource).Name(name).Do(ctx).Into(into); err != nil {
		return fmt.Errorf("reading %s %s/%s: %w", resource, namespace, name, err)
	}
	return nil
}

// List reads all objects of a namespace, or of all where it is empty.
func (c *Client) List(ctx context.Context, resource, namespace string, into runtime.Object) error {
	if err := c.Fleet.Get().Namespace(namespace).Resource(resource).Do(ctx).Into(into); err != nil {
		return fmt.Errorf("listing %s in %s: %w", resource, namespace, err)
	}
	return nil
}

// Patch merges a JSON document into an object.
func (c *Client) Patch(ctx context.Context, resource, namespace, name string, patch []byte) error {
	err := c.Fleet.Patch(types.MergePatchType).Namespace(namespace).Resource(resource).Name(name).Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("patching %s %s/%s: %w", resource, namespace, name, err)
	}
	return nil
}

// Delete removes an object; one that is not there is no error.
func (c *Client) Delete(ctx context.Context, resource, namespace, name string) error {
	err := c.Fleet.Delete().Namespace(namespace).Resource(resource).Name(name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s/%s: %w", resource, namespace, name, err)
	}
	return nil
}

// Await is one thing somebody waits for.
type Await struct {
	// From is the client of the group the resource is in: Client.Fleet, or Client.Kube.CoreV1().RESTClient().
	From rest.Interface
	// Resource, Namespace and Name find the object. An empty name is any object of the namespace.
	Resource, Namespace, Name string
	// For says in the error what did not come, such as "its first heartbeat".
	For string
	// Within bounds the wait; zero leaves it to the context.
	Within time.Duration
}

// Until watches until done says so of the object, and returns it. The error of a wait that is over
// wraps ErrNotInTime and says what was waited for.
func Until[T Object](ctx context.Context, a Await, done func(T) bool) (T, error) {
	caller := ctx
	if a.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Within)
		defer cancel()
	}
	selector := fields.Everything()
	if a.Name != "" {
		selector = fields.OneTermEqualSelector(metav1.ObjectNameField, a.Name)
	}
	var found, none T
	listed := cache.NewListWatchFromClient(a.From, a.Resource, a.Namespace, selector)
	_, err := watchtools.UntilWithSync(ctx, listed, newOf[T](), nil, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(T)
		if !ok || event.Type == watch.Deleted || !done(object) {
			return false, nil
		}
		found = object
		return true, nil
	})
	switch {
	case err == nil:
		return found, nil
	case errors.Is(caller.Err(), context.Canceled):
		return none, fmt.Errorf("interrupted while waiting for %s: %w", a.For, context.Cause(caller))
	}
	return none, fmt.Errorf("%w: %s %s/%s, %s", ErrNotInTime, a.Resource, a.Namespace, a.Name, a.For)
}
