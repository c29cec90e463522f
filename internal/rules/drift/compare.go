// Package drift tells in what an object in the cluster is not what was deployed. It is pure: what it is given it
// does not change, and the same input gives the same output, byte for byte.
//
//	desired ─► normalise ─► disregard ─► recast ─┐
//	                                             ├─► merge ─► canonical ─┐
//	live ────► normalise ─► disregard ───────────┘                       ├─► patch
//	                  └──────────────────────────────────► canonical ────┘
//
// The question is what would change if the desired object were applied once more. Only fields count that the
// desired object has: what others add is theirs. Lists are merged the way the API server merges a strategic patch,
// by the tags of the built-in kinds, so that what is told is what a correction would change.
package drift

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Comparer compares objects.
type Comparer struct {
	// New returns a pointer to an empty object of a built-in kind, nil for any other kind. Kinds it knows are
	// compared by what they mean (1000m is 1); all others as they are written.
	New func(schema.GroupVersionKind) any
}

// Input is what is compared. Nothing in it is changed.
type Input struct {
	// Desired is the object as it was deployed, Live as the API server has it. Both are of the same kind, namespace
	// and name; Desired has to name its namespace.
	Desired, Live *unstructured.Unstructured
	// Release is what else was deployed with Desired. Autoscalers among it may scale it.
	Release []*unstructured.Unstructured
	// Rules say what to disregard.
	Rules Rules
}

// Compare returns the JSON merge patch that would make the live object what was deployed, nil if it is. What is
// confidential in a Secret is not in it. An error means that the patch could not be written.
func (c Comparer) Compare(in Input) (Patch, error) {
	gvk := in.Desired.GroupVersionKind()
	desired, live := normalise(in.Desired), normalise(in.Live)
	desired, live = in.Rules.apply(gvk, desired), in.Rules.apply(gvk, live)
	leaveToAutoscaler(in, desired)
	k := c.kindOf(gvk)
	want, _ := k.recast(desired).(map[string]any)
	merged, _ := merge(live, want, k.lists(), "").(map[string]any)
	before, after := k.canonical(live, merged)
	return newPatch(gvk.GroupKind(), before, after)
}

// kind is what is known of a kind; typed is nil for one that is not built in.
type kind struct {
	typed any
	// zeroIsNothing means that a field with a zero value and one that is not there cannot be told apart.
	zeroIsNothing bool
}

func (c Comparer) kindOf(gvk schema.GroupVersionKind) kind {
	return kind{typed: c.New(gvk), zeroIsNothing: servedFromTypes(gvk.Group)}
}

// lists tells how the lists of the kind are merged, nil if nothing is known.
func (k kind) lists() strategicpatch.LookupPatchMeta {
	if k.typed == nil {
		return nil
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(k.typed)
	if err != nil {
		return nil // no struct
	}
	return lookup
}

// convert writes an object the way the kind's own type does, and reports whether that is possible.
func (k kind) convert(object map[string]any) (map[string]any, bool) {
	if k.typed == nil {
		return nil, false
	}
	typed := reflect.New(reflect.TypeOf(k.typed).Elem()).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
		return nil, false
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, false
	}
	// The type of an object in the cluster never holds the first, and always has the second.
	delete(converted, "status")
	if metadata, ok := converted["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return converted, true
}

// canonical writes both sides the way their type does, so that only differences in meaning are left, if both fit it.
// Fields the type does not know, but the server does, stay: it may be newer.
func (k kind) canonical(live, merged map[string]any) (before, after map[string]any) {
	converted, ok := k.convert(live)
	convertedMerged, okMerged := k.convert(merged)
	if !ok || !okMerged {
		return live, merged
	}
	before, _ = restore(converted, live, live).(map[string]any)
	after, _ = restore(convertedMerged, merged, live).(map[string]any)
	return before, after
}

// restore puts fields of object back that are in served and got lost in converted.
func restore(converted, object, served any) any {
	switch converted := converted.(type) {
	case map[string]any:
		from, isMap := object.(map[string]any)
		known, isKnown := served.(map[string]any)
		if isMap && isKnown {
			return restoreMap(converted, from, known)
		}
	case []any:
		from, isList := object.([]any)
		known, isKnown := served.([]any)
		if isList && isKnown && len(from) == len(converted) && len(known) == len(converted) {
			out := make([]any, len(converted))
			for i := range converted {
				out[i] = restore(converted[i], from[i], known[i])
			}
			return out
		}
	}
	return converted
}

func restoreMap(converted, object, served map[string]any) map[string]any {
	out := maps.Clone(converted)
	for key, value := range object {
		have, there := served[key]
		kept, isKept := converted[key]
		switch {
		case isKept:
			out[key] = restore(kept, value, have)
		case there && !isZero(value):
			out[key] = value
		}
	}
	return out
}
