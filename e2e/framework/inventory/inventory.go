// Package inventory lists all objects of a cluster, of every kind, with their names and UIDs.
//
//	discovery ─► every kind that can be listed ─► metadata only ─► Inventory ─► what Differs from another one
package inventory

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Object identifies an object. The UID distinguishes objects that have the same name.
type Object struct {
	// Resource is the resource with its group: "roles.rbac.authorization.k8s.io".
	Resource        string
	Namespace, Name string
	UID             types.UID
}

// String returns the object's name: "secrets fleet-default/t1 (uid)".
func (o Object) String() string {
	return fmt.Sprintf("%s %s (%s)", o.Resource, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.UID)
}

// Inventory maps the objects of a cluster to their creation times.
type Inventory map[Object]time.Time

// Take lists a cluster's objects. Events are omitted, because they come and go.
func Take(ctx context.Context, config *rest.Config) (Inventory, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{} // about deprecated resources
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	kinds, err := asked.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discovering the resources: %w", err)
	}
	taken := Inventory{}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("parsing the discovered resources: %w", err)
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || kind.Kind == "Event" {
				continue
			}
			if err := taken.add(ctx, objects, version.WithResource(kind.Name)); err != nil {
				return nil, err
			}
		}
	}
	return taken, nil
}

func (i Inventory) add(ctx context.Context, objects metadata.Interface, resource schema.GroupVersionResource) error {
	list, err := objects.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	for _, object := range list.Items {
		i[Object{resource.GroupResource().String(), object.Namespace, object.Name, object.UID}] = object.CreationTimestamp.Time
	}
	return nil
}

// Without returns a copy without the objects for which drop returns true.
func (i Inventory) Without(drop func(o Object, made time.Time) bool) Inventory {
	kept := Inventory{}
	for object, made := range i {
		if !drop(object, made) {
			kept[object] = made
		}
	}
	return kept
}

// Differs returns the sorted differences to another inventory: objects missing there ("- secrets …") and
// additional ones ("+ secrets …").
func (i Inventory) Differs(other Inventory) (differences []string) {
	for object := range i {
		if _, both := other[object]; !both {
			differences = append(differences, "- "+object.String())
		}
	}
	for object := range other {
		if _, both := i[object]; !both {
			differences = append(differences, "+ "+object.String())
		}
	}
	slices.Sort(differences)
	return differences
}

// Lacking returns the ServiceAccount and the CA ConfigMap that Kubernetes creates in every namespace, for the
// namespaces in which they do not exist yet. They have no UID.
func (i Inventory) Lacking() (lacking []Object) {
	found := map[Object]bool{}
	for object := range i {
		object.UID = ""
		found[object] = true
	}
	for object := range found {
		if object.Resource != "namespaces" {
			continue
		}
		for _, own := range []Object{
			{Resource: "serviceaccounts", Namespace: object.Name, Name: "default"},
			{Resource: "configmaps", Namespace: object.Name, Name: "kube-root-ca.crt"},
		} {
			if !found[own] {
				lacking = append(lacking, own)
			}
		}
	}
	return lacking
}
