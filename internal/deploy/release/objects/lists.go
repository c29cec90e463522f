package objects

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// keyedList is a list whose items a strategic merge patch merges by a key, in three versions of an object.
type keyedList struct {
	before, target, live []any
	key                  string
}

// replaceLists finds the lists that cannot be merged by their key, for example ports that differ only in their protocol. It
// removes such a list from before and live, and completes the one of target, so that the patch contains the whole list. It
// reports whether there is one.
func replaceLists(before, target, live map[string]any, schema strategicpatch.LookupPatchMeta) bool {
	found := false
	for name, value := range target {
		switch value := value.(type) {
		case map[string]any:
			if inner, _, err := schema.LookupPatchMetadataForStruct(name); err == nil {
				found = replaceLists(fieldsOf(before[name]), value, fieldsOf(live[name]), inner) || found
			}
		case []any:
			items, meta, err := schema.LookupPatchMetadataForSlice(name)
			if err != nil || meta.GetPatchMergeKey() == "" || !slices.Contains(meta.GetPatchStrategies(), "merge") {
				continue // replaced as a whole, or a set
			}
			list := keyedList{before: itemsOf(before[name]), target: value, live: itemsOf(live[name]), key: meta.GetPatchMergeKey()}
			if list.isMergeable() {
				found = list.replaceInner(items) || found
				continue
			}
			target[name], found = list.complete(), true
			delete(before, name)
			delete(live, name)
		}
	}
	return found
}

// isMergeable reports whether the key identifies the items. The API server does not store empty keys. Lists with items that
// are not maps count as mergeable, because the patch then fails with an error that names them.
func (l keyedList) isMergeable() bool {
	unique := true
	for _, list := range [][]any{l.before, l.target, l.live} {
		seen := map[string]bool{}
		for _, item := range list {
			if fieldsOf(item) == nil {
				return true
			}
			key := l.keyOf(item)
			unique = unique && key != "" && !seen[key]
			seen[key] = true
		}
	}
	return unique
}

// replaceInner calls replaceLists for the items.
func (l keyedList) replaceInner(schema strategicpatch.LookupPatchMeta) bool {
	found, before, live := false, l.byIdentity(l.before), l.byIdentity(l.live)
	for i, id := range l.identities(l.target) {
		found = replaceLists(fieldsOf(before[id]), fieldsOf(l.target[i]), fieldsOf(live[id]), schema) || found
	}
	return found
}

// complete returns the items of target with the fields that only live has, such as node ports, and then the items of other
// writers. It returns live if that has all items in this order.
func (l keyedList) complete() []any {
	before, live, target := l.byIdentity(l.before), l.byIdentity(l.live), l.byIdentity(l.target)
	wanted := make([]any, 0, len(l.target))
	for i, id := range l.identities(l.target) {
		wanted = append(wanted, keepOthers(fieldsOf(before[id]), fieldsOf(l.target[i]), fieldsOf(live[id])))
	}
	own, others := []any{}, []any{}
	for i, id := range l.identities(l.live) {
		if before[id] == nil && target[id] == nil {
			others = append(others, l.live[i])
			continue
		}
		own = append(own, l.live[i])
	}
	if reflect.DeepEqual(own, wanted) {
		return l.live
	}
	return append(wanted, others...)
}

// keepOthers returns target with the fields of live that neither before nor target has.
func keepOthers(before, target, live map[string]any) map[string]any {
	out := maps.Clone(target)
	for name, value := range live {
		_, wasOurs := before[name]
		wanted, isOurs := target[name]
		if inner := fieldsOf(wanted); inner != nil {
			out[name] = keepOthers(fieldsOf(before[name]), inner, fieldsOf(value))
		} else if !wasOurs && !isOurs {
			out[name] = value
		}
	}
	return out
}

// identities returns a name for each item. Ports with the same key differ in their protocol, and topology spread constraints in
// whenUnsatisfiable. Other items with the same key are numbered.
func (l keyedList) identities(list []any) []string {
	out, seen := make([]string, len(list)), map[string]int{}
	for i, item := range list {
		fields := fieldsOf(item)
		protocol, _ := fields["protocol"].(string)
		id := fmt.Sprint(l.keyOf(item), "/", cmp.Or(protocol, string(corev1.ProtocolTCP)), "/", fields["whenUnsatisfiable"])
		out[i] = fmt.Sprint(id, "/", seen[id])
		seen[id]++
	}
	return out
}

func (l keyedList) byIdentity(list []any) map[string]any {
	out := make(map[string]any, len(list))
	for i, id := range l.identities(list) {
		out[id] = list[i]
	}
	return out
}

// keyOf returns the key of an item, or "" if the item lacks it.
func (l keyedList) keyOf(item any) string {
	key := fieldsOf(item)[l.key]
	if key == nil {
		return ""
	}
	return fmt.Sprint(key)
}

func fieldsOf(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

func itemsOf(value any) []any {
	items, _ := value.([]any)
	return items
}
