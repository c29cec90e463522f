package capi

import (
	"encoding/base64"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// render returns the objects of a kustomization in the order in which they can be created.
func render(dir string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("building the kustomization %s: %w", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range built.Resources() {
		// Through JSON, because the library's own maps contain integers that DeepCopy does not support.
		content, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encoding %s of the kustomization %s: %w", resource.CurId(), dir, err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("decoding %s of the kustomization %s: %w", resource.CurId(), dir, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// adapt returns the objects for a core outside of the cluster. Webhooks call the server at url, such as
// https://127.0.0.1:9443, and trust the CA certificates in caBundle (PEM).
func adapt(objects []*unstructured.Unstructured, url string, caBundle []byte) ([]*unstructured.Unstructured, error) {
	var adapted []*unstructured.Unstructured
	for _, object := range objects {
		kind := object.GroupVersionKind().GroupKind()
		if runsInPod(kind) {
			continue
		}
		object = object.DeepCopy()
		if err := redirect(object, url, caBundle); err != nil {
			return nil, fmt.Errorf("changing the webhooks of %s %s: %w", kind.Kind, object.GetName(), err)
		}
		adapted = append(adapted, object)
	}
	return adapted, nil
}

// runsInPod reports whether objects of this kind run the core in a pod, or provide the certificate for it.
func runsInPod(kind schema.GroupKind) bool {
	return slices.Contains([]schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Kind: "Service"},
		{Group: "cert-manager.io", Kind: "Certificate"},
		{Group: "cert-manager.io", Kind: "Issuer"},
	}, kind)
}

// redirect replaces the Service in each client configuration of the object by a URL.
func redirect(object *unstructured.Unstructured, url string, caBundle []byte) error {
	for _, config := range clientConfigs(object) {
		path, found, err := unstructured.NestedString(config, "service", "path")
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("the client configuration %v names no path of a Service", config)
		}
		delete(config, "service")
		config["url"] = url + path
		config["caBundle"] = base64.StdEncoding.EncodeToString(caBundle)
	}
	return nil
}

// clientConfigs returns the client configurations of the object's webhooks. Changes of them change the object.
func clientConfigs(object *unstructured.Unstructured) []map[string]any {
	var webhooks []any
	switch object.GetKind() {
	case "CustomResourceDefinition":
		conversion, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "conversion", "webhook")
		webhooks = []any{conversion}
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		webhooks, _ = object.Object["webhooks"].([]any)
	}
	var configs []map[string]any
	for _, webhook := range webhooks {
		fields, _ := webhook.(map[string]any)
		if config, ok := fields["clientConfig"].(map[string]any); ok {
			configs = append(configs, config)
		}
	}
	return configs
}
