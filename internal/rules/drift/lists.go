package drift

import (
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// listRule says how a list is merged.
type listRule struct {
	items strategicpatch.LookupPatchMeta
	// merged means that items are merged by key, or as a set if key is empty. Otherwise the list is replaced.
	merged bool
	// open means that others may add items to a list that is replaced.
	open     bool
	key      string
	strategy string // of the items
}

func lookupList(schema strategicpatch.LookupPatchMeta, key string) listRule {
	if schema == nil {
		return listRule{}
	}
	items, meta, err := schema.LookupPatchMetadataForSlice(key)
	if err != nil {
		return listRule{}
	}
	return listRule{
		items: items, merged: strategyOf(meta, strategyMerge) != "", key: meta.GetPatchMergeKey(),
		strategy: strategyOf(meta, strategyRetainKeys),
	}
}

func strategyOf(meta strategicpatch.PatchMeta, strategy string) string {
	if slices.Contains(meta.GetPatchStrategies(), strategy) {
		return strategy
	}
	return ""
}

func mergeList(live any, want []any, rule listRule) any {
	have, ok := live.([]any)
	switch {
	case !ok:
		return plain(want)
	case !rule.merged:
		return replaceList(have, want, rule)
	case rule.key == "":
		return unite(have, want)
	}
	return mergeByKey(have, want, rule)
}

// replaceList returns want, but keeps the items of live that only have additional fields, such as server defaults.
func replaceList(live, want []any, rule listRule) any {
	if rule.open {
		return extendList(live, want, rule)
	}
	if len(live) != len(want) {
		return plain(want)
	}
	out, same := make([]any, len(want)), true
	for i := range want {
		if covers(live[i], want[i], rule) {
			out[i] = live[i]
			continue
		}
		out[i], same = plain(want[i]), false
	}
	if same {
		return live
	}
	return out
}

// extendList returns live with the items of want that it does not cover. An equal item may be anywhere in live. One that
// has more fields is looked for at the place of the item, and among the first ones.
func extendList(live, want []any, rule listRule) any {
	out, first, known := slices.Clone(live), live[:min(len(live), mostTried)], identities(live)
	for i, item := range want {
		if known[identify(plain(item))] || i < len(live) && covers(live[i], item, rule) {
			continue
		}
		if !slices.ContainsFunc(first, func(have any) bool { return covers(have, item, rule) }) {
			out = append(out, plain(item))
		}
	}
	return out
}

// covers reports whether live has everything that want has.
func covers(live, want any, rule listRule) bool {
	if inner, ok := want.([]any); ok { // a list in a list
		return reflect.DeepEqual(mergeList(live, inner, listRule{}), live)
	}
	return reflect.DeepEqual(merge(live, want, rule.items, ""), live)
}

// unite returns live with the items of want that it does not contain.
func unite(live, want []any) any {
	out, known := slices.Clone(live), identities(live)
	for _, item := range want {
		if id := identify(plain(item)); !known[id] {
			known[id], out = true, append(out, plain(item))
		}
	}
	return out
}

// mergeByKey merges items with the same key, in the order of live. New items are appended. The key need not be unique:
// TCP and UDP services may use the same port. Items that match completely are paired first.
func mergeByKey(live, want []any, rule listRule) any {
	out, free := slices.Clone(live), candidates{}
	for i, have := range live {
		id := identify(keyOf(have, rule.key))
		free[id] = append(free[id], i)
	}
	var rest []any
	for _, item := range want {
		id := identify(keyOf(item, rule.key))
		if free.take(id, func(i int) bool { return covers(live[i], item, rule) }) < 0 {
			rest = append(rest, item)
		}
	}
	for _, item := range rest {
		id := identify(keyOf(item, rule.key))
		i := free.take(id, func(int) bool { return true })
		if i < 0 {
			out = append(out, plain(item))
			continue
		}
		out[i] = merge(live[i], item, rule.items, rule.strategy)
	}
	return out
}

// mostTried limits the number of items among which one that covers another is looked for.
const mostTried = 32

// candidates are the positions of the items that are not paired yet, by their key.
type candidates map[string][]int

// take returns the first accepted item with a key and removes it, or -1.
func (c candidates) take(key string, accept func(int) bool) int {
	queue := c[key]
	for at, i := range queue[:min(len(queue), mostTried)] {
		if accept(i) {
			copy(queue[1:at+1], queue[:at])
			c[key] = queue[1:]
			return i
		}
	}
	return -1
}

func identities(list []any) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, item := range list {
		out[identify(item)] = true
	}
	return out
}

// identify returns the same text for the same value. Numbers are equal in any representation.
func identify(value any) string {
	if number(value) {
		return strconv.FormatFloat(asFloat(value), 'g', -1, 64)
	}
	return encode(value)
}

func keyOf(item any, key string) any {
	fields, _ := item.(map[string]any)
	return plain(fields[key])
}
