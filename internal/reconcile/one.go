package reconcile

import (
	"fmt"

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
// object of that name that is no child of owner stays. What the cache does not show is not deleted: its appearing
// wakes whoever watches the set.
func (s *Set) RemoveOne(owner Owner, object runtime.Object) error {
	kind, desired, err := s.prepare(owner, object)
	if err != nil {
		return err
	}
	found, err := kind.cached(desired.GetNamespace(), desired.GetName())
	if err != nil || found == nil || found.GetLabels()[fleet.LabelSetHash] != s.Hash(owner) || kind.keepAlive || !leaves(kind, found, nil) {
		return err
	}
	if err := kind.delete(found); err != nil {
		return fmt.Errorf("deleting %s %s: %w", kind.gvk.Kind, keyOf(found), err)
	}
	return nil
}
