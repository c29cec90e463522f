package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

const (
	// manager is the field manager of all applied objects.
	manager = "fleet-plane"
	// pollEvery is the interval between two checks of an object that other controllers change.
	pollEvery = 20 * time.Millisecond
)

// Apply creates or updates the objects, and waits until the API server serves the CRDs among them and the
// controller-manager has filled the aggregated ClusterRoles.
func Apply(ctx context.Context, client dynamic.Interface, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if _, err := resource(client, object).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	for _, object := range objects {
		if err := await(ctx, client, object); err != nil {
			return fmt.Errorf("waiting for %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func resource(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return client.Resource(kind).Namespace(object.GetNamespace())
}

// await returns when the object is ready for use, or with the cause when ctx is done.
func await(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		missing := unready(object)
		if missing == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", missing, context.Cause(ctx))
		}
		got, err := resource(client, object).Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		object = got
	}
}

// unready returns why the object cannot be used yet, or nil.
func unready(object *unstructured.Unstructured) error {
	switch _, aggregated := object.Object["aggregationRule"]; {
	case aggregated:
		if rules, _ := object.Object["rules"].([]any); len(rules) == 0 {
			return errors.New("the controller-manager has not aggregated any rule")
		}
	case object.GetKind() == "CustomResourceDefinition":
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		established := slices.ContainsFunc(conditions, func(condition any) bool {
			fields, _ := condition.(map[string]any)
			return fields["type"] == string(apiextensionsv1.Established) && fields["status"] == string(metav1.ConditionTrue)
		})
		if !established {
			return errors.New("the CRD is not established")
		}
	}
	return nil
}
