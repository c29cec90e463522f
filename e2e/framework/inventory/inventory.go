// Package inventory lists everything there is on a cluster, whatever its kind, by name and UID.
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

// Object is one object. Two of the same name are told apart by their UIDs.
type Object struct {
	// Resource is that of the kind, with its group: "roles.rbac.authorization.k8s.io".
	Resource        string
	Namespace, Name string
	UID             types.UID
}

// String names the object: "secrets fleet-default/t1 (uid)".
func (o Object) String() string {
	return fmt.Sprintf("%s %s (%s)", o.Resource, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.UID)
}

// Inventory is what there was, and when each object was made.
type Inventory map[Object]time.Time

// Take lists a cluster. Events are left out: they come and go by themselves.
func Take(ctx context.Context, config *rest.Config) (Inventory, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{} // about kinds that are deprecated
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	kinds, err := asked.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("asking for the kinds there are: %w", err)
	}
	taken := Inventory{}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("reading the kinds there are: %w", err)
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

// Without leaves out what drop says. The inventory itself stays as it is.
func (i Inventory) Without(drop func(o Object, made time.Time) bool) Inventory {
	kept := Inventory{}
	for object, made := range i {
		if !drop(object, made) {
			kept[object] = made
		}
	}
	return kept
}

// Differs says what another inventory has less ("- secrets …") and more ("+ secrets …"), sorted.
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

// Lacking are the account and the CA that Kubernetes puts into every namespace, where they are not there yet. They have
// no UID.
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
