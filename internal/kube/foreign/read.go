package foreign

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fleet-hub/fleet/internal/kube/answers"
)

// Find reads the object with the kind, namespace and name of into into it. It returns false if the object does
// not exist.
func (d *Client) Find(ctx context.Context, into runtime.Object) (bool, error) {
	item, client, err := d.clientFor(into)
	if err != nil {
		return false, err
	}
	found, err := client.Get(ctx, item.GetName(), metav1.GetOptions{})
	switch {
	case answers.IsDeleted(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", describe(item), failed(err))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into); err != nil {
		return false, fmt.Errorf("reading %s: %w", describe(item), boundedError{err})
	}
	return true, nil
}

// List reads the Pods or ReplicaSets of a namespace that match a label selector, up to listLimit of them.
func (d *Client) List(ctx context.Context, namespace, selector string, into runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(into)
	if err != nil {
		return fmt.Errorf("%w: %T", ErrUnknownKind, into)
	}
	resource, known := lists()[kinds[0]]
	if !known {
		return fmt.Errorf("%w: %s", ErrUnknownKind, kinds[0])
	}
	found, err := d.dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: listLimit})
	if err != nil {
		return fmt.Errorf("reading the %s of namespace %s: %w", resource.Resource, namespace, failed(err))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.UnstructuredContent(), into); err != nil {
		return fmt.Errorf("reading the %s of namespace %s: %w", resource.Resource, namespace, boundedError{err})
	}
	return nil
}

// lists returns the kinds of lists that List can read.
func lists() map[schema.GroupVersionKind]schema.GroupVersionResource {
	return map[schema.GroupVersionKind]schema.GroupVersionResource{
		{Version: "v1", Kind: "PodList"}:                       {Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Kind: "ReplicaSetList"}: {Group: "apps", Version: "v1", Resource: "replicasets"},
	}
}
