package reconcile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TakenError says that another object has the name of a child: one that does not carry the hash of this set and owner.
// It stays as it is. The client chooses the names of some owners, and children are named after them: see
// docs/decisions/0050.
type TakenError struct {
	// GVK, Namespace and Name are those of the object.
	GVK             schema.GroupVersionKind
	Namespace, Name string
	// Hash is the value of fleet.LabelSetHash that it would have as a child; "" if the child is in no set.
	Hash string
}

// Error says what is wrong, and what to do about it.
func (e *TakenError) Error() string {
	what, where := strings.ToLower(e.GVK.GroupKind().String()), ""
	if e.Namespace != "" {
		where = "-n " + e.Namespace + " "
	}
	text := fmt.Sprintf("%s %s exists and was not made for this object, so it is left as it is: if nothing else needs it, run `kubectl %sdelete %s %s`",
		e.GVK.Kind, keyText(e.Namespace, e.Name), where, what, e.Name)
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

// Adopting lets children of this kind take over objects without the marks of their set, of which may says so. It is for
// names that only those who administrate the hub can take.
func (k Kind) Adopting(may func(Object) bool) Kind {
	k.adopts = may
	return k
}

// Any is for Adopting: objects of these names are taken over, whatever they are.
func Any(Object) bool { return true }

// isTaken reports whether a live object is no child and must not become one. The hash has to be that of exactly this set
// and owner. It can be written only by who can change the object anyway.
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
	return &TakenError{GVK: k.gvk, Namespace: live.GetNamespace(), Name: live.GetName(), Hash: desired.GetLabels()[fleet.LabelSetHash]}
}
