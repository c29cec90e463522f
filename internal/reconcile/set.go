package reconcile

import (
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrTerminating means that a wanted child is still being deleted. It is created again once it is gone.
var ErrTerminating = errors.New("it is being deleted")

// ErrReplaced means that a child with a UID no longer exists, or that its name now belongs to another object.
var ErrReplaced = errors.New("it was replaced since it was looked at")

// Owner identifies the owner of a set's objects. The zero value is for objects without an owner.
type Owner struct {
	// GVK is the owner's kind.
	GVK schema.GroupVersionKind
	// Namespace and Name are the owner's. Namespace is empty for cluster-scoped owners.
	Namespace, Name string
	// UID is the owner's UID. It is empty if the owner is gone; then no child may be created.
	UID types.UID
}

// OwnerOf returns obj, of kind gvk, as an Owner.
func OwnerOf(gvk schema.GroupVersionKind, obj metav1.Object) Owner {
	return Owner{GVK: gvk, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
}

// GoneOwner returns an Owner that no longer exists. Apply without objects deletes its children.
func GoneOwner(gvk schema.GroupVersionKind, namespace, name string) Owner {
	return Owner{GVK: gvk, Namespace: namespace, Name: name}
}

func (o Owner) named() names.Owner {
	if o.Name == "" {
		return names.Owner{}
	}
	return names.Owner{GVK: o.GVK.String(), Name: o.Name, Namespace: o.Namespace}
}

// Set keeps the children of each owner in the state that the rules return.
type Set struct {
	id       string
	kinds    []Kind
	parallel bool
}

// NewSet returns the set with this ID. The ID is on every child: changing it orphans them. kinds are all kinds that a
// rule may return. Children of other kinds are an error and are not pruned.
func NewSet(id string, kinds ...Kind) *Set { return &Set{id: id, kinds: kinds} }

// Parallel writes the objects of each Apply in parallel: first all but the bindings, then the bindings, because the
// server refuses a binding to a role that does not exist. Most of a write is waiting for the server, so parallel
// writes take little longer than one.
func (s *Set) Parallel() *Set {
	s.parallel = true
	return s
}

// Hash returns the value of the label fleet.LabelSetHash on the children of this owner.
func (s *Set) Hash(owner Owner) string { return names.SetHash(s.id, owner.named()) }

// Apply makes the objects the children of owner, in their order, and then deletes children that are not among them.
// It does not change the objects it gets. An object that is as desired costs no request. If a field that we own
// differs, it is patched; if the field is immutable, the object is replaced. An existing object that does not carry
// the set's hash stays as it is and causes a TakenError. An object with a UID is never created, only updated; if it
// is gone, the error is ErrReplaced. All objects are tried. Children are deleted only if all objects are in place,
// except for bindings to a Role that is not ours.
func (s *Set) Apply(owner Owner, objects ...runtime.Object) error {
	wanted := map[string]bool{}
	var children []markedChild
	for _, object := range objects {
		kind, desired, err := s.prepare(owner, object)
		if err != nil {
			return err
		}
		wanted[memberKey(kind, desired)] = true
		children = append(children, markedChild{kind, desired})
	}
	if err := s.ensureAll(owner, children); err != nil {
		return err
	}
	return s.prune(owner, wanted)
}

// prepare copies the object and adds the marks of the set to the copy.
func (s *Set) prepare(owner Owner, object runtime.Object) (Kind, Object, error) {
	kind, err := s.kindOf(object)
	if err != nil {
		return Kind{}, nil, err
	}
	desired, ok := object.DeepCopyObject().(Object)
	if !ok {
		return Kind{}, nil, fmt.Errorf("set %s: %T has no metadata", s.id, object)
	}
	if kind.tracks {
		trackLabels(desired)
	}
	s.stamp(owner, desired)
	return kind, desired, nil
}

func (s *Set) kindOf(object runtime.Object) (Kind, error) {
	for _, kind := range s.kinds {
		if kind.goType == reflect.TypeOf(object) {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("set %s: unsupported child type %T", s.id, object)
}

// stamp marks an object as a child, so that both this project and Rancher Fleet recognise and prune it.
func (s *Set) stamp(owner Owner, obj Object) {
	obj.SetLabels(labels.Merge(obj.GetLabels(), labels.Set{fleet.LabelSetHash: s.Hash(owner)}))
	annotate(obj, fleet.AnnotationSetID, s.id)
	if owner.Name == "" {
		return
	}
	annotate(obj, fleet.AnnotationSetOwnerGVK, owner.GVK.String())
	annotate(obj, fleet.AnnotationSetOwnerName, owner.Name)
	annotate(obj, fleet.AnnotationSetOwnerNamespace, owner.Namespace)
	if owner.UID == "" || obj.GetNamespace() == "" || owner.Namespace != "" && owner.Namespace != obj.GetNamespace() {
		return // owner references cannot cross namespaces
	}
	no := false
	obj.SetOwnerReferences(append(obj.GetOwnerReferences(), metav1.OwnerReference{
		APIVersion: owner.GVK.GroupVersion().String(), Kind: owner.GVK.Kind, Name: owner.Name, UID: owner.UID,
		Controller: &no, BlockOwnerDeletion: &no,
	}))
}

func annotate(obj Object, key, value string) {
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), labels.Set{key: value}))
}

func (s *Set) prune(owner Owner, wanted map[string]bool) error {
	var failures []error
	for _, kind := range s.kinds {
		if kind.keepAlive {
			continue
		}
		members, err := s.members(kind, owner)
		if err != nil {
			return err
		}
		for _, member := range members {
			if !leaves(kind, member, wanted) || len(wanted) > 0 && kind.keeps != nil && kind.keeps(member) {
				continue
			}
			if err := kind.Remove(member); err != nil {
				failures = append(failures, fmt.Errorf("deleting %s %s: %w", kind.gvk.Kind, KeyOf(member), err))
			}
		}
	}
	return errors.Join(failures...)
}

// members returns the cached children of owner that have a kind.
func (s *Set) members(kind Kind, owner Owner) ([]Object, error) {
	found, err := kind.informer.GetIndexer().ByIndex(bySetIndex, s.Hash(owner))
	var members []Object
	for _, item := range found {
		if member, ok := item.(Object); ok && !s.isOfNamesake(owner, member) {
			members = append(members, member)
		}
	}
	return members, err
}

// isOfNamesake reports whether an object with owner's hash is the child of another owner. The hash has no separators, so
// that "west" in namespace "nonprod" and "westnon" in "prod" have the same. Other changes of the annotations do not make
// an object leave its owner.
func (s *Set) isOfNamesake(owner Owner, member Object) bool {
	annotations := member.GetAnnotations()
	named := names.Owner{
		GVK: annotations[fleet.AnnotationSetOwnerGVK], Name: annotations[fleet.AnnotationSetOwnerName],
		Namespace: annotations[fleet.AnnotationSetOwnerNamespace],
	}
	return named != owner.named() && names.SetHash(s.id, named) == s.Hash(owner)
}

// leaves reports whether a member is no longer wanted and may be deleted.
func leaves(kind Kind, member Object, wanted map[string]bool) bool {
	return !wanted[memberKey(kind, member)] && member.GetDeletionTimestamp() == nil && member.GetLabels()[fleet.LabelSetPrune] != "false"
}

func memberKey(kind Kind, obj Object) string {
	return kind.gvk.Kind + " " + KeyOf(obj).String()
}

// Watch calls enqueue with the owner of every child that is added, changed or deleted. So children are repaired, and
// pruned if their owner is gone. Call it before the caches start.
func (s *Set) Watch(enqueue func(owner types.NamespacedName)) error {
	resolve := func(obj Object) []types.NamespacedName {
		annotations := obj.GetAnnotations()
		if annotations[fleet.AnnotationSetID] != s.id {
			return nil
		}
		return []types.NamespacedName{{
			Namespace: annotations[fleet.AnnotationSetOwnerNamespace], Name: annotations[fleet.AnnotationSetOwnerName],
		}}
	}
	for _, kind := range s.kinds {
		if err := Watch(kind.informer, resolve, enqueue); err != nil {
			return err
		}
	}
	return nil
}

// Versions returns a hash of the versions of owner's cached children. It changes when a child is added, changed or
// deleted. If neither it nor the desired state has changed, the caller can skip Apply, which compares every field.
func (s *Set) Versions(owner Owner) (uint64, error) {
	var versions []string
	for _, kind := range s.kinds {
		members, err := s.members(kind, owner)
		if err != nil {
			return 0, err
		}
		for _, member := range members {
			versions = append(versions, memberKey(kind, member)+" "+string(member.GetUID())+" "+member.GetResourceVersion())
		}
	}
	slices.Sort(versions)
	sum := fnv.New64a()
	for _, version := range versions {
		_, _ = sum.Write([]byte(version + "\n")) // writing to a hash never fails
	}
	return sum.Sum64(), nil
}
