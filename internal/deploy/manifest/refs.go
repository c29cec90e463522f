package manifest

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/state"
)

// Ref identifies an object of a release. The object may not exist.
type Ref struct {
	schema.GroupVersionKind
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
}

func (r Ref) APIVersion() string { return r.GroupVersion().String() }

// Text describes the object for messages.
func (r Ref) Text() string { return state.Describe(r.APIVersion(), r.Kind, r.Namespace, r.Name) }

// CheckIdentity returns an error for an object without an API version, a kind or a name. An API server could not store it.
func CheckIdentity(object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		return fmt.Errorf("YAML parse error: object %q has no apiVersion or no kind", object.GetName())
	}
	if object.GetName() == "" && object.GetGenerateName() != "" {
		return fmt.Errorf("YAML parse error: an object of kind %s has metadata.generateName, but objects of a bundle need metadata.name", gvk.Kind)
	}
	if object.GetName() == "" {
		return fmt.Errorf("YAML parse error: an object of kind %s has no name, or a name that YAML does not read as text (y, no, 1 …): put it in quotes", gvk.Kind)
	}
	return nil
}

// Name returns what identifies an object, as a manifest names it.
func Name(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", object.GroupVersionKind(), object.GetNamespace(), object.GetName())
}

// Content returns a hash of an object as JSON, in which the order of keys and the Go type of a number do not matter.
func Content(object *unstructured.Unstructured) string {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return Name(object) // cannot happen: a manifest has only what JSON has
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// Objects maps the references of a revision's objects to the objects.
type Objects map[Ref]*unstructured.Unstructured

// List returns the objects in no particular order.
func (m Objects) List() []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(m))
	for _, object := range m {
		out = append(out, object)
	}
	return out
}

// Revision describes a revision of a release and its objects.
type Revision struct {
	Number int
	// Deployed is the time of the deployment if another process made it.
	Deployed time.Time
	// Refs are the objects of the release, in the order of its manifest.
	Refs []Ref
	// Live are those objects as the API server last returned them. Wanted are the objects as they were deployed.
	Live, Wanted Objects
	// Former are the objects of the previous revision.
	Former []Ref
}

// identity identifies an object in all versions of its kind.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

// identitiesOf returns the identities of objects as a set.
func identitiesOf(refs []Ref) map[identity]bool {
	found := map[identity]bool{}
	for _, ref := range refs {
		found[identity{ref.GroupKind(), ref.Namespace, ref.Name}] = true
	}
	return found
}

// ContainsAny reports whether a manifest of a release contains one of the objects. Namespaced objects without a namespace
// are in that of the release. Namespaces do not count, because releases share them.
func ContainsAny(text, namespace string, refs []Ref) bool {
	objects, err := Parse([]byte(text))
	if err != nil {
		return false
	}
	wanted := identitiesOf(refs)
	return slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool {
		one := identity{object.GroupVersionKind().GroupKind(), "", object.GetName()}
		if one.kind == (schema.GroupKind{Kind: "Namespace"}) {
			return false
		}
		clusterScoped := wanted[one]
		one.namespace = cmp.Or(object.GetNamespace(), namespace)
		return clusterScoped || wanted[one]
	})
}

// Surplus returns the objects of a revision that the next revision does not have. The version of a kind does not
// matter: an object is the same in all versions.
func Surplus(former, refs []Ref) []Ref {
	kept := identitiesOf(refs)
	var left []Ref
	for _, ref := range former {
		if !kept[identity{ref.GroupKind(), ref.Namespace, ref.Name}] {
			left = append(left, ref)
		}
	}
	return left
}
