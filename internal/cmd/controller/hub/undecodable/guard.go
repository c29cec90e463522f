package undecodable

import (
	"context"
	"fmt"
	"slices"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cut"
)

// completeOnly is a controller that neither reconciles nor overwrites objects that were decoded incompletely. Patches
// are safe, because they contain only changed fields.
type completeOnly[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]

	undecodable *Objects
}

// Guard returns a controller that neither reconciles nor overwrites the objects that are tracked.
func Guard[T generic.RuntimeMetaObject, L runtime.Object](controller generic.ControllerInterface[T, L], objects *Objects) generic.ControllerInterface[T, L] {
	return completeOnly[T, L]{controller, objects}
}

// Unguarded returns a controller that also reconciles and overwrites the objects that are tracked. Use it for orders about
// an object that must be carried out whatever its content is, and only patch its metadata.
func Unguarded[T generic.RuntimeMetaObject, L runtime.Object](controller generic.ControllerInterface[T, L]) generic.ControllerInterface[T, L] {
	if guarded, is := controller.(completeOnly[T, L]); is {
		return guarded.ControllerInterface
	}
	return controller
}

// OnChange calls a handler for complete objects. Others are handled once they are corrected.
func (c completeOnly[T, L]) OnChange(ctx context.Context, name string, handle generic.ObjectHandler[T]) {
	c.ControllerInterface.OnChange(ctx, name, func(key string, object T) (T, error) {
		var none T
		if object != none && len(c.undecodable.Fields(object)) > 0 {
			return object, nil // reported when it was decoded
		}
		return handle(key, object)
	})
}

// Update refuses to overwrite undecodable fields outside the status.
func (c completeOnly[T, L]) Update(wanted T) (T, error) {
	if err := c.refuse(wanted, func(field string) bool { return !isStatus(field) }); err != nil {
		return wanted, err
	}
	return c.ControllerInterface.Update(wanted)
}

// UpdateStatus refuses to overwrite undecodable fields of the status.
func (c completeOnly[T, L]) UpdateStatus(wanted T) (T, error) {
	if err := c.refuse(wanted, isStatus); err != nil {
		return wanted, err
	}
	return c.ControllerInterface.UpdateStatus(wanted)
}

func (c completeOnly[T, L]) refuse(wanted T, writes func(field string) bool) error {
	if fields := slices.DeleteFunc(slices.Clone(c.undecodable.Fields(wanted)), func(f string) bool { return !writes(f) }); len(fields) > 0 {
		return fmt.Errorf("not overwriting %s %s/%s: %s cannot be decoded", c.GroupVersionKind().Kind, wanted.GetNamespace(), wanted.GetName(), cut.Names(fields, mostNamed))
	}
	return nil
}
