package reconcile

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ApplyOne applies one child of owner, as Apply does, and does not change the other children. Use it for an owner
// with so many children that each is decided separately.
func (s *Set) ApplyOne(owner Owner, object runtime.Object) error {
	kind, desired, err := s.prepare(owner, object)
	if err != nil {
		return err
	}
	return markedChild{kind, desired}.ensure()
}

// RemoveOne deletes one child of owner. The object only needs its type and name. An object of that name that does not
// belong to the owner's set stays. A child that is neither in the cache nor in the recent writes is not deleted: when
// it appears in the cache, the watchers of the set are enqueued.
func (s *Set) RemoveOne(owner Owner, object runtime.Object) error {
	kind, desired, err := s.prepare(owner, object)
	if err != nil {
		return err
	}
	found, err := kind.Known(KeyOf(desired))
	if err != nil || found == nil || found.GetLabels()[fleet.LabelSetHash] != s.Hash(owner) || s.isOfNamesake(owner, found) ||
		kind.keepAlive || !leaves(kind, found, nil) {
		return err
	}
	if err := kind.Remove(found); err != nil {
		return fmt.Errorf("deleting %s %s: %w", kind.gvk.Kind, KeyOf(found), err)
	}
	return nil
}

// Ensure creates or updates an object as Apply does, but without a set or an owner.
func (k Kind) Ensure(object Object) error {
	desired, ok := object.DeepCopyObject().(Object)
	if !ok {
		return fmt.Errorf("copying %T: the copy has no metadata", object)
	}
	return markedChild{k, desired}.ensure()
}

// CreateOnce creates an object unless it is in the cache or this process has just created it. An existing object is
// not an error and stays as it is. made reports whether the object was created.
func (k Kind) CreateOnce(object Object) (made bool, err error) {
	if known, err := k.Known(KeyOf(object)); err != nil || known != nil {
		return false, err
	}
	err = k.create(object)
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}
