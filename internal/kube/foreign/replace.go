package foreign

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Replace updates an object that was read and changed. A concurrent write by another client is a conflict.
func (d *Client) Replace(ctx context.Context, obj runtime.Object) error {
	item, client, err := d.clientFor(obj)
	if err != nil {
		return err
	}
	if _, err := client.Update(ctx, item, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
		return fmt.Errorf("replacing %s: %w", describe(item), failed(err))
	}
	return nil
}

// RemovePods deletes the pods of a namespace that match a label selector. Their owner creates new ones.
func (d *Client) RemovePods(ctx context.Context, namespace, selector string) error {
	pods := d.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector}); err != nil {
		return fmt.Errorf("removing the pods %s of %s: %w", selector, namespace, failed(err))
	}
	return nil
}
