package reconcile

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ApplyOne makes one object a child of owner, as Apply does, and leaves all other children as they are. It is for
// an owner with so many children that each is decided by itself.
func (s *Set) ApplyOne(owner Owner, object runtime.Object) error {
	kind, desired, err := s.prepare(owner, object)
	if err != nil {
		return err
	}
	return markedChild{kind, desired}.ensure()
}

// RemoveOne deletes one child of owner, of which the object needs to say no more than what it is and its name. An
// object of that name that is no child of owner stays. What is in no cache yet, and was not written just
// now, is not deleted: its appearing wakes whoever watches the set.
func (s *Set) RemoveOne(owner Owner, object runtime.Object) error {
	kind, desired, err := s.prepare(owner, object)
	if err != nil {
		return err
	}
	found, err := kind.known(keyOf(desired))
	if err != nil || found == nil || found.GetLabels()[fleet.LabelSetHash] != s.Hash(owner) || kind.keepAlive || !leaves(kind, found, nil) {
		return err
	}
	if err := kind.delete(found); err != nil {
		return fmt.Errorf("deleting %s %s: %w", kind.gvk.Kind, keyOf(found), err)
	}
	return nil
}

// Ensure makes an object what it should be, as Apply does, but no member of a set: it belongs to nobody.
func (k Kind) Ensure(object Object) error {
	desired, ok := object.DeepCopyObject().(Object)
	if !ok {
		return fmt.Errorf("a copy of %T is none", object)
	}
	return markedChild{k, desired}.ensure()
}

// CreateOnce creates an object that is in no cache, unless this process did so a moment ago. One that is there is no
// error and stays as it is; made says whether it was not.
func (k Kind) CreateOnce(object Object) (made bool, err error) {
	if known, err := k.known(keyOf(object)); err != nil || known != nil {
		return false, err
	}
	err = k.create(object)
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

// Remove deletes exactly this object. One that is gone, or was replaced since, is no error.
func (k Kind) Remove(object Object) error { return k.delete(object) }
