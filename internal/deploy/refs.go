package deploy

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/state"
)

// objectRef identifies an object of a release. The object may not exist.
type objectRef struct {
	schema.GroupVersionKind
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
}

func (r objectRef) apiVersion() string { return r.GroupVersion().String() }

// text describes the object for messages.
func (r objectRef) text() string { return state.Describe(r.apiVersion(), r.Kind, r.Namespace, r.Name) }

// manifest maps the references of a revision's objects to the objects.
type manifest map[objectRef]*unstructured.Unstructured

// list returns the objects in no particular order.
func (m manifest) list() []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(m))
	for _, object := range m {
		out = append(out, object)
	}
	return out
}

// installed describes a revision of a release and its objects.
type installed struct {
	Revision int
	// Refs are the objects of the release, in the order of its manifest.
	Refs []objectRef
	// Live are those objects as the API server last returned them. Wanted are the objects as they were deployed.
	Live, Wanted manifest
	// Former are the objects of the previous revision.
	Former []objectRef
}

// surplus returns the objects of a revision that the next revision does not have. The version of a kind does not
// matter: an object is the same in all versions.
func surplus(former, refs []objectRef) []objectRef {
	type identity struct {
		kind            schema.GroupKind
		namespace, name string
	}
	of := func(ref objectRef) identity { return identity{ref.GroupKind(), ref.Namespace, ref.Name} }
	kept := map[identity]bool{}
	for _, ref := range refs {
		kept[of(ref)] = true
	}
	var left []objectRef
	for _, ref := range former {
		if !kept[of(ref)] {
			left = append(left, ref)
		}
	}
	return left
}
