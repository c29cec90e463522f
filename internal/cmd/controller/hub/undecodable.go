package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	kjson "sigs.k8s.io/json"
)

// reasonUnreadable is the reason of the Event about an object that cannot be decoded completely.
const reasonUnreadable = "Unreadable"

// reportEvery is the minimum time between two reports about one object.
const reportEvery = 10 * time.Minute

// undecodable tracks the objects with values that their CRD allows but their Go type cannot hold. Any tenant can write
// them. The object stays in the caches without these fields, so that selectors and indexes find it. It is not
// reconciled or overwritten until it is corrected or deleted. A nil undecodable is empty.
//
//	decoder ─► decodeFields ─► note ─► log, Event
//	                             └─► of ─► not reconciled, not overwritten
type undecodable struct {
	log   *slog.Logger
	clock func() time.Time
	// event records an Event for users.
	event func(object runtime.Object, message string)

	mu      sync.Mutex
	objects map[types.UID]incomplete
}

// incomplete is the newest version of an object that could not be decoded completely.
type incomplete struct {
	version  string
	fields   []string
	reported time.Time
}

// note records the undecodable fields of an object and reports them. An object that is being deleted counts as
// complete: its finalizers must be removed, and its content no longer matters.
func (u *undecodable) note(kind string, object runtime.Object, fields []string) {
	item, err := meta.Accessor(object)
	if u == nil || err != nil || len(fields) == 0 || item.GetDeletionTimestamp() != nil {
		return
	}
	u.mu.Lock()
	known := u.objects[item.GetUID()]
	due := u.clock().Sub(known.reported) >= reportEvery
	if due {
		known.reported = u.clock()
	}
	if !isOlder(item.GetResourceVersion(), known.version) {
		known.version, known.fields = item.GetResourceVersion(), fields
	}
	u.objects[item.GetUID()] = known
	u.mu.Unlock()
	if due {
		name := cache.MetaObjectToName(item)
		u.log.Warn("object cannot be decoded completely", "object", kind+" "+name.String(), "error", "undecodable: "+few(fields))
		u.event(object, fmt.Sprintf("%s cannot be decoded, so the object is not reconciled. Correct it with: kubectl edit %ss.fleet.cattle.io %s%s",
			few(fields), strings.ToLower(kind), name.Name, editFlags(name.Namespace, fields)))
	}
}

// editFlags returns the flags with which kubectl edit reaches the fields.
func editFlags(namespace string, fields []string) (flags string) {
	if namespace != "" {
		flags += " --namespace " + namespace
	}
	if slices.ContainsFunc(fields, isStatus) {
		flags += " --subresource status"
	}
	return flags
}

// isOlder reports whether a version precedes another one. Versions that are not numbers are never older.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// of returns the undecodable fields of an object. Versions older than the newest incomplete one count as incomplete,
// too: they come from a stale cache.
func (u *undecodable) of(object metav1.Object) []string {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.objects[object.GetUID()]
	if object.GetDeletionTimestamp() == nil && (object.GetResourceVersion() == known.version || isOlder(object.GetResourceVersion(), known.version)) {
		return known.fields
	}
	return nil
}

// forgetDeleted forgets the objects of an informer when they are deleted.
func (u *undecodable) forgetDeleted(informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if item, err := meta.Accessor(obj); err == nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			delete(u.objects, item.GetUID())
		}
	}})
	return err
}

// decodeFields decodes a document into an empty object without what the object's type cannot hold: top-level fields, or
// fields directly below such as spec.paused. It returns their names, or an error if the document is not a JSON object.
func decodeFields(raw []byte, into runtime.Object) (fields []string, err error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	decodes := func(document any) bool { return decodeAgain(document, into.DeepCopyObject()) == nil }
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if decodes(map[string]any{name: parts[name]}) {
			continue
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(parts[name], &inner) != nil {
			fields = append(fields, name)
			delete(parts, name)
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(inner)) {
			if !decodes(map[string]any{name: map[string]any{field: inner[field]}}) {
				fields = append(fields, name+"."+field)
				delete(inner, field)
			}
		}
		if parts[name], err = json.Marshal(inner); err != nil {
			return nil, err
		}
	}
	return fields, decodeAgain(parts, into)
}

func decodeAgain(document any, into runtime.Object) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// decodeItems decodes each object of a list on its own with decodeFields. empty returns an empty object of their kind.
func decodeItems(raw []byte, into runtime.Object, empty func() runtime.Object, note func(runtime.Object, []string)) error {
	var list struct {
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	objects := make([]runtime.Object, len(list.Items))
	for i, item := range list.Items {
		objects[i] = empty()
		fields, err := decodeFields(item, objects[i])
		if err != nil {
			return err
		}
		note(objects[i], fields)
	}
	accessor, err := meta.ListAccessor(into)
	if err != nil {
		return err
	}
	accessor.SetResourceVersion(list.ResourceVersion)
	accessor.SetContinue(list.Continue)
	accessor.SetRemainingItemCount(list.RemainingItemCount)
	return meta.SetList(into, objects)
}

// completeOnly is a controller that neither reconciles nor overwrites objects that were decoded incompletely. Patches
// are safe, because they contain only what has changed.
type completeOnly[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]

	undecodable *undecodable
}

// OnChange calls a handler for complete objects. Others are handled once they are corrected.
func (c completeOnly[T, L]) OnChange(ctx context.Context, name string, handle generic.ObjectHandler[T]) {
	c.ControllerInterface.OnChange(ctx, name, func(key string, object T) (T, error) {
		var none T
		if object != none && len(c.undecodable.of(object)) > 0 {
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
	if fields := slices.DeleteFunc(slices.Clone(c.undecodable.of(wanted)), func(f string) bool { return !writes(f) }); len(fields) > 0 {
		return fmt.Errorf("not overwriting %T %s/%s: %s cannot be decoded", wanted, wanted.GetNamespace(), wanted.GetName(), few(fields))
	}
	return nil
}

func isStatus(field string) bool { return field == "status" || strings.HasPrefix(field, "status.") }

// few joins the first of many names.
func few(fields []string) string {
	const most = 3
	if len(fields) <= most {
		return strings.Join(fields, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(fields[:most], ", "), len(fields)-most)
}
