// Package client is a small typed client for the demo and the user stories. It creates what a user creates, and
// waits for changes with a watch.
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

// Resource names of fleet.cattle.io.
const (
	Clusters             = "clusters"
	ClusterGroups        = "clustergroups"
	ClusterRegistrations = "clusterregistrations"
	Tokens               = "clusterregistrationtokens"
	Bundles              = "bundles"
	BundleDeployments    = "bundledeployments"
	Mappings             = "bundlenamespacemappings"
)

// ErrNotInTime means that a wait ended before its condition was met.
var ErrNotInTime = errors.New("condition not met in time")

// Client is an admin's client of one cluster.
type Client struct {
	// Kube is the client of Kubernetes' own resources, Fleet that of fleet.cattle.io.
	Kube  kubernetes.Interface
	Fleet rest.Interface
}

// New returns a client with the rights of config and without a client-side rate limit.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	typed, err := kube.FleetClient(config, nil)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", fleet.SchemeGroupVersion, err)
	}
	return &Client{Kube: core, Fleet: typed}, nil
}

// EnsureNamespace creates a namespace if it does not exist.
func (c *Client) EnsureNamespace(ctx context.Context, name string) error {
	_, err := c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// Object is an object of fleet.cattle.io.
type Object interface {
	runtime.Object
	metav1.Object
}

// Create creates an object and updates it with the API server's response.
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

// List lists the objects of a namespace. An empty namespace lists all namespaces.
func (c *Client) List(ctx context.Context, resource, namespace string, into runtime.Object) error {
	if err := c.Fleet.Get().Namespace(namespace).Resource(resource).Do(ctx).Into(into); err != nil {
		return fmt.Errorf("listing %s in %s: %w", resource, namespace, err)
	}
	return nil
}

// Patch applies a JSON merge patch to an object.
func (c *Client) Patch(ctx context.Context, resource, namespace, name string, patch []byte) error {
	err := c.Fleet.Patch(types.MergePatchType).Namespace(namespace).Resource(resource).Name(name).Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("patching %s %s/%s: %w", resource, namespace, name, err)
	}
	return nil
}

// Delete deletes an object. A missing object is not an error.
func (c *Client) Delete(ctx context.Context, resource, namespace, name string) error {
	err := c.Fleet.Delete().Namespace(namespace).Resource(resource).Name(name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s/%s: %w", resource, namespace, name, err)
	}
	return nil
}

// Await describes what to wait for.
type Await struct {
	// From is the REST client of the resource's group: Client.Fleet, or Client.Kube.CoreV1().RESTClient().
	From rest.Interface
	// Resource, Namespace and Name identify the object. An empty name means any object of the namespace.
	Resource, Namespace, Name string
	// For describes the awaited condition in the error, for example "its first heartbeat".
	For string
	// Within limits the wait. Zero leaves the limit to the context.
	Within time.Duration
}

// Until watches objects until done returns true, and returns that object. If the wait ends before, the error
// wraps ErrNotInTime and contains a.For.
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
