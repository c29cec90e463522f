package reconcile

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TakenError means that another object, without the hash of this set and owner, has the name of a child. That object
// stays as it is. Clients choose the names of some owners, and children are named after their owners: see
// docs/decisions/0003.
type TakenError struct {
	// GVK, Namespace and Name identify the object.
	GVK             schema.GroupVersionKind
	Namespace, Name string
	// Hash is the value of fleet.LabelSetHash that the child would have. It is "" if the child belongs to no set.
	Hash string
	// differs means that the content differs from the child's, not only the marks.
	differs bool
}

// Error describes the problem and the remedy.
func (e *TakenError) Error() string { return e.What() + ": " + e.Remedy() }

// What describes the problem.
func (e *TakenError) What() string {
	return fmt.Sprintf("%s %s exists and was not created by the hub for this object, and is not changed", e.GVK.Kind, keyText(e.Namespace, e.Name))
}

// Remedy describes what to do so that the child can be created. It is advice for the user who chose the name. Do not
// show it for a name that a client chose: its advice would delete or hand over objects of other users.
func (e *TakenError) Remedy() string {
	what, where := strings.ToLower(e.GVK.GroupKind().String()), ""
	if e.Namespace != "" {
		where = "-n " + e.Namespace + " "
	}
	text := fmt.Sprintf("if nothing else needs it, run `kubectl %sdelete %s %s`", where, what, e.Name)
	if e.Hash == "" {
		return text
	}
	return text + fmt.Sprintf("; if the hub made it and its label was removed, run `kubectl %slabel %s %s %s=%s`", where, what, e.Name, fleet.LabelSetHash, e.Hash)
}

func keyText(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Adopting lets children of this kind take over objects without the marks of their set if may returns true. Use it
// only for names that only the hub's administrators can take.
func (k Kind) Adopting(may func(Object) bool) Kind {
	k.adopts = may
	return k
}

// Any is an argument for Adopting: it takes over any object that has the name of a child.
func Any(Object) bool { return true }

// isTaken reports whether a live object is not a child and must not become one. Its hash must be that of exactly this
// set and owner. Only a client that can change the object can add the hash.
func (k Kind) isTaken(live, desired Object) bool {
	hash := desired.GetLabels()[fleet.LabelSetHash]
	switch {
	case hash != "" && live.GetLabels()[fleet.LabelSetHash] == hash:
		return false
	case k.adopts != nil:
		return !k.adopts(live)
	}
	return hash != ""
}

func (k Kind) takenBy(live, desired Object) error {
	changes, err := k.fieldChanges(live, desired)
	if err != nil {
		return err
	}
	return &TakenError{
		GVK: k.gvk, Namespace: live.GetNamespace(), Name: live.GetName(), Hash: desired.GetLabels()[fleet.LabelSetHash], differs: len(changes) > 0,
	}
}

// unbind deletes the owner's bindings to Roles that now belong to something else: they grant rights that our rules
// did not write. A Role that has only lost its marks stays bound.
func (s *Set) unbind(owner Owner, failures []error) error {
	var failed []error
	for _, failure := range failures {
		taken := (*TakenError)(nil)
		if !errors.As(failure, &taken) || !taken.differs {
			continue
		}
		for _, kind := range s.kinds {
			members, err := s.members(kind, owner)
			failed = append(failed, err)
			for _, member := range members {
				if binds(member, taken) {
					failed = append(failed, kind.Remove(member))
				}
			}
		}
	}
	return errors.Join(failed...)
}

// binds reports whether an object is a binding to the Role.
func binds(object Object, role *TakenError) bool {
	ref := roleRefOf(object)
	return ref.Kind == role.GVK.Kind && ref.Name == role.Name && (role.Namespace == "" || role.Namespace == object.GetNamespace())
}
