package foreign

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
)

// Apply applies the objects in order, one request each, and takes over fields that differ. It stops at the first
// error. The caller sets labels and annotations of sets.
func (d *Client) Apply(ctx context.Context, objs ...runtime.Object) error {
	for _, obj := range objs {
		item, client, err := d.clientFor(obj)
		if err != nil {
			return err
		}
		if err := apply(ctx, client, item); err != nil {
			return fmt.Errorf("applying %s: %w", describe(item), failed(err))
		}
	}
	return nil
}

func apply(ctx context.Context, client dynamic.ResourceInterface, item *unstructured.Unstructured) error {
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	_, err := client.Apply(ctx, item.GetName(), item, options)
	if !apierrors.IsInvalid(err) || !recreates(item) {
		return err
	}
	// The parameters of rolling updates that the server filled in as defaults have no field manager. So they stay,
	// and the server refuses them together with the strategy Recreate. Once they are ours, server-side apply removes
	// them when they are no longer set.
	rolling := item.DeepCopy()
	strategy := map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": "25%", "maxUnavailable": "25%"}}
	if err := unstructured.SetNestedMap(rolling.Object, strategy, "spec", "strategy"); err != nil {
		return err
	}
	if _, err := client.Apply(ctx, item.GetName(), rolling, options); err != nil {
		return err
	}
	_, err = client.Apply(ctx, item.GetName(), item, options)
	return err
}

// recreates reports whether an object is a Deployment with the strategy Recreate.
func recreates(item *unstructured.Unstructured) bool {
	strategy, _, err := unstructured.NestedString(item.Object, "spec", "strategy", "type")
	return err == nil && item.GetKind() == "Deployment" && strategy == string(appsv1.RecreateDeploymentStrategyType)
}
