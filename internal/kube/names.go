package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// NamesInformer returns an informer for the objects of a resource in all namespaces that match a field selector.
// An empty selector matches all. Its store contains *metav1.PartialObjectMetadata with only name, namespace, UID
// and resourceVersion. The rest of an object is read when needed and never cached. The caller runs the informer.
func NamesInformer(cfg *rest.Config, resource schema.GroupVersionResource, fieldSelector string) (cache.SharedIndexInformer, error) {
	client, err := metadata.NewForConfig(Watching(cfg))
	if err != nil {
		return nil, fmt.Errorf("building the client for the names of %s: %w", resource.Resource, err)
	}
	informer := metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fieldSelector
	}).Informer()
	if err := informer.SetTransform(nameAndVersion); err != nil {
		return nil, fmt.Errorf("preparing the watch of the names of %s: %w", resource.Resource, err)
	}
	return informer, nil
}

func nameAndVersion(obj any) (any, error) {
	found, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil // a tombstone: the deletion was missed
	}
	return &metav1.PartialObjectMetadata{TypeMeta: found.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: found.Namespace, Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion,
	}}, nil
}
