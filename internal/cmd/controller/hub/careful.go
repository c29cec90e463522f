package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/rancher/wrangler/v3/pkg/generic"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// careful is a controller for objects that may be decoded incompletely. Objects whose spec cannot be decoded are not
// reconciled. Incompletely decoded objects are written as a patch of the changed fields, so that undecodable fields
// keep their values.
type careful[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]

	resource string
	unread   *unread
}

// OnChange calls a handler for all objects except blocked ones. These are handled once they are corrected.
func (c careful[T, L]) OnChange(ctx context.Context, name string, handle generic.ObjectHandler[T]) {
	c.ControllerInterface.OnChange(ctx, name, func(key string, object T) (T, error) {
		var none T
		if object != none && c.unread.holds(object) {
			return object, nil // reported when it was decoded
		}
		return handle(key, object)
	})
}

// Update writes a patch if the object was decoded incompletely.
func (c careful[T, L]) Update(wanted T) (T, error) {
	if !slices.ContainsFunc(c.unread.of(wanted), func(l lost) bool { return !l.inStatus() }) {
		return c.ControllerInterface.Update(wanted)
	}
	return c.patch(wanted, false)
}

// UpdateStatus writes a patch if the object was decoded incompletely.
func (c careful[T, L]) UpdateStatus(wanted T) (T, error) {
	if !slices.ContainsFunc(c.unread.of(wanted), lost.inStatus) {
		return c.ControllerInterface.UpdateStatus(wanted)
	}
	return c.patch(wanted, true, "status")
}

// patch reads the version of the object that its writer started from, and sends the differences. Like an update, it
// fails if another client has written since.
func (c careful[T, L]) patch(wanted T, status bool, subresources ...string) (T, error) {
	read, err := c.Get(wanted.GetNamespace(), wanted.GetName(), metav1.GetOptions{})
	if err != nil {
		return read, err
	}
	if read.GetUID() != wanted.GetUID() || read.GetResourceVersion() != wanted.GetResourceVersion() {
		resource := schema.GroupResource{Group: fleet.SchemeGroupVersion.Group, Resource: c.resource}
		return read, apierrors.NewConflict(resource, wanted.GetName(), fmt.Errorf("it is of version %s now", read.GetResourceVersion()))
	}
	missing := c.unread.of(read)
	if _, err := newPool().slim(read); err != nil { // as in the writer's cache
		return read, err
	}
	wanted, _ = wanted.DeepCopyObject().(T) // a copy has the same type
	wanted.SetManagedFields(nil)
	body, err := changesBeside(missing, read, wanted, status)
	if err != nil || body == nil {
		return read, err
	}
	return c.Patch(wanted.GetNamespace(), wanted.GetName(), types.MergePatchType, body, subresources...)
}

// changesBeside returns the merge patch from read to wanted, for the status or for everything else. It leaves out
// changes that would overwrite undecodable fields. It returns nil if nothing remains.
func changesBeside(missing []lost, read, wanted metav1.Object, status bool) ([]byte, error) {
	before, err := json.Marshal(read)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", read, err)
	}
	after, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", wanted, err)
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	var changes map[string]any
	if err == nil {
		err = json.Unmarshal(patch, &changes)
	}
	if err != nil {
		return nil, fmt.Errorf("comparing %T: %w", wanted, err)
	}
	for name := range changes {
		if (name == "status") != status || name == "kind" || name == "apiVersion" {
			delete(changes, name)
		}
	}
	spare(changes, "", missing)
	if len(changes) == 0 {
		return nil, nil
	}
	meta, ok := changes["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		changes["metadata"] = meta
	}
	meta["uid"], meta["resourceVersion"] = read.GetUID(), read.GetResourceVersion()
	return json.Marshal(changes)
}

// spare removes changes from a merge patch that contain an undecodable field, or that are inside one. A new text or
// number for an undecodable field stays in the patch, because it repairs the field.
func spare(changes map[string]any, at string, missing []lost) {
	for name, value := range changes {
		path := joined(at, name)
		inner, isObject := value.(map[string]any)
		_, isList := value.([]any)
		switch {
		case value != nil && !isObject && !isList && slices.ContainsFunc(missing, func(l lost) bool { return l.path == path }):
		case isObject && len(inner) > 0:
			if spare(inner, path, missing); len(inner) == 0 {
				delete(changes, name)
			}
		case slices.ContainsFunc(missing, func(l lost) bool { return within(l.path, path) || within(path, l.path) }):
			delete(changes, name)
		}
	}
}

// within reports whether a path is equal to, or inside, another path.
func within(path, into string) bool {
	rest, ok := strings.CutPrefix(path, into)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
