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

// careful is a controller of objects that may not have been read whole. Nothing is decided for one of which it is not
// known what its owner wants; and none is sent whole, but as a patch of what differs from what was read, so that what
// could not be read stays as it is.
type careful[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]

	resource string
	unread   *unread
}

// OnChange calls a handler for all but the objects that are held. They come by again when they are corrected.
func (c careful[T, L]) OnChange(ctx context.Context, name string, handle generic.ObjectHandler[T]) {
	c.ControllerInterface.OnChange(ctx, name, func(key string, object T) (T, error) {
		var none T
		if object != none && c.unread.holds(object) {
			return object, nil // it was told when it was read
		}
		return handle(key, object)
	})
}

// Update is a patch for what was not read whole.
func (c careful[T, L]) Update(wanted T) (T, error) {
	if !slices.ContainsFunc(c.unread.of(wanted), func(l lost) bool { return !l.inStatus() }) {
		return c.ControllerInterface.Update(wanted)
	}
	return c.patch(wanted, false)
}

// UpdateStatus is a patch for what was not read whole.
func (c careful[T, L]) UpdateStatus(wanted T) (T, error) {
	if !slices.ContainsFunc(c.unread.of(wanted), lost.inStatus) {
		return c.ControllerInterface.UpdateStatus(wanted)
	}
	return c.patch(wanted, true, "status")
}

// patch reads the object again, for what its writer has begun with, and sends what differs. It holds, as an update does,
// only if nobody wrote since.
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
	if _, err := newPool().slim(read); err != nil { // as what its writer has from a cache
		return read, err
	}
	wanted, _ = wanted.DeepCopyObject().(T) // a copy is of the same type
	wanted.SetManagedFields(nil)
	body, err := changesBeside(missing, read, wanted, status)
	if err != nil || body == nil {
		return read, err
	}
	return c.Patch(wanted.GetNamespace(), wanted.GetName(), types.MergePatchType, body, subresources...)
}

// changesBeside is the merge patch from what was read to what is wanted, of the status or of all but the status, without
// what would write over something that was not read; nil if there is nothing else.
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

// spare takes out of a merge patch what something lost is in, and what is in something lost. A new text or number in
// place of what is lost stays: it heals it.
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

// within says whether a path leads into what another one leads to, or to it.
func within(path, into string) bool {
	rest, ok := strings.CutPrefix(path, into)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
