package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A markedChild is an object of a set with the set's marks, and its kind.
type markedChild struct {
	kind    Kind
	desired Object
}

func (c markedChild) ensure() error {
	err := c.kind.ensure(c.desired)
	if taken := (*TakenError)(nil); errors.As(err, &taken) {
		return err // it names the object
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", c.kind.gvk.Kind, KeyOf(c.desired), err)
	}
	return nil
}

// ensureAll tries all children, even if some fail. In waves, bindings are written only if all other children are in
// place: otherwise the role that a binding names could belong to something else.
func (s *Set) ensureAll(owner Owner, children []markedChild) error {
	if s.parallel {
		first, bindings := waves(children)
		failures := together(first)
		if err := errors.Join(failures...); err != nil {
			return errors.Join(err, s.unbind(owner, failures))
		}
		return errors.Join(together(bindings)...)
	}
	var failures []error
	for _, c := range children {
		failures = append(failures, c.ensure())
	}
	return errors.Join(failures...)
}

// waves separates the bindings from the other children.
func waves(children []markedChild) (first, bindings []markedChild) {
	for _, c := range children {
		if strings.HasSuffix(c.kind.gvk.Kind, "Binding") {
			bindings = append(bindings, c)
		} else {
			first = append(first, c)
		}
	}
	return first, bindings
}

func together(children []markedChild) []error {
	failures := make([]error, len(children))
	var all sync.WaitGroup
	for i, c := range children {
		all.Go(func() { failures[i] = c.ensure() })
	}
	all.Wait()
	return failures
}

// ensure creates or updates one child.
func (k Kind) ensure(desired Object) error {
	live, err := k.Known(KeyOf(desired))
	if err != nil {
		return err
	}
	if desired.GetUID() != "" {
		return k.keep(live, desired)
	}
	if live != nil {
		err := k.adjust(live, desired)
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	err = k.create(desired)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// Either the object is not ours, or the cache does not have it yet.
	live, err = k.live(desired.GetNamespace(), desired.GetName())
	if err != nil {
		return err
	}
	if live == nil {
		return k.create(desired) // it was deleted in between
	}
	return k.adjust(live, desired)
}

// keep is ensure for a child that was derived from the object known: only that object, with the same UID, is updated.
// If it is gone, its content, such as a token, is not copied into a new object.
func (k Kind) keep(known, desired Object) error {
	if known == nil || known.GetUID() != desired.GetUID() {
		var err error
		if known, err = k.live(desired.GetNamespace(), desired.GetName()); err != nil {
			return err
		}
	}
	if known == nil || known.GetUID() != desired.GetUID() {
		return ErrReplaced
	}
	err := k.adjust(known, desired)
	if apierrors.IsNotFound(err) {
		return ErrReplaced
	}
	return err
}

// adjust updates an existing child, or replaces it.
func (k Kind) adjust(live, desired Object) error {
	if k.isTaken(live, desired) {
		return k.takenBy(live, desired)
	}
	if live.GetDeletionTimestamp() != nil {
		return ErrTerminating
	}
	if mustRecreate(live, desired) {
		if err := k.Remove(live); err != nil {
			return err
		}
		return k.create(desired)
	}
	body, err := k.patchFor(live, desired)
	if err != nil || body == nil {
		return err
	}
	return k.patch(desired.GetNamespace(), desired.GetName(), body)
}

// Remove deletes exactly this object. It is not an error if the object is gone or was replaced.
func (k Kind) Remove(obj Object) error {
	k.written.Forget(KeyOf(obj), obj)
	background, options := metav1.DeletePropagationBackground, &metav1.DeleteOptions{}
	if obj.GetUID() != "" {
		options = Exactly(obj)
	}
	options.PropagationPolicy = &background
	return IgnoreGone(k.remove(obj.GetNamespace(), obj.GetName(), options))
}
