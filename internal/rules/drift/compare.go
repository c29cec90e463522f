// Package drift computes how an object in the cluster differs from the deployed one. It is pure: it does not change
// its input, and the same input gives the same output, byte for byte.
//
//	desired ─► normalise ─► disregard ─► recast ─┐
//	                                             ├─► merge ─► canonical ─┐
//	live ────► normalise ─► disregard ───────────┘                       ├─► patch
//	                  └──────────────────────────────────► canonical ────┘
//
// The result is the change that applying the desired object again would make. Only fields of the desired object count;
// fields that others add are ignored. Lists are merged as the API server merges a strategic merge patch, by the tags
// of the built-in kinds, so that the reported difference is what a correction would change.
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
	// New returns a pointer to an empty object of a built-in kind, or nil for any other kind. Built-in kinds are
	// compared by meaning (1000m equals 1), all others literally.
	New func(schema.GroupVersionKind) any
}

// Input holds the objects to compare. Compare does not change them.
type Input struct {
	// Desired is the object as deployed. Live is the object in the API server. Both have the same kind, namespace and
	// name; Desired must set its namespace.
	Desired, Live *unstructured.Unstructured
	// Autoscalers are those of the release. They may scale Desired.
	Autoscalers Autoscalers
	// Rules say which differences to ignore.
	Rules Rules
}

// Compare returns the JSON merge patch that turns the live object into the deployed one, or nil if they do not differ.
// It contains no confidential data of a Secret. An error means that the patch could not be encoded.
func (c Comparer) Compare(in Input) (Patch, error) {
	gvk := in.Desired.GroupVersionKind()
	desired, live := normalise(in.Desired), normalise(in.Live)
	in.Rules.apply(gvk, desired)
	in.Rules.apply(gvk, live)
	if isScaled(in) {
		unstructured.RemoveNestedField(desired, "spec", "replicas")
	}
	k := c.kindOf(gvk)
	want, _ := k.recast(desired).(map[string]any)
	merged, _ := merge(live, want, k.lists(), "").(map[string]any)
	before, after := k.canonical(live, merged)
	return newPatch(gvk.GroupKind(), before, after)
}

// kind describes a kind. typed is nil for kinds that are not built in.
type kind struct {
	typed any
	// zeroIsNothing means that a zero value and a missing field cannot be distinguished.
	zeroIsNothing bool
}

func (c Comparer) kindOf(gvk schema.GroupVersionKind) kind {
	return kind{typed: c.New(gvk), zeroIsNothing: servedFromTypes(gvk.Group)}
}

// lists returns how the lists of the kind are merged, or nil if that is unknown.
func (k kind) lists() strategicpatch.LookupPatchMeta {
	if k.typed == nil {
		return nil
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(k.typed)
	if err != nil {
		return nil // not a struct
	}
	return lookup
}

// convert converts an object through the kind's Go type, and reports whether that worked.
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
	// Stored objects never have this status, and always have a creationTimestamp.
	delete(converted, "status")
	if metadata, ok := converted["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return converted, true
}

// canonical converts both sides through their Go type, so that only differences in meaning remain. Fields that the
// type does not know but the server does are kept, because the server may be newer.
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

// restore restores fields of object that are in served and were lost in converted.
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
