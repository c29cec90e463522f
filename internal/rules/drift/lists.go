package drift

import (
	"reflect"
	"slices"

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

// extendList returns live with the items of want that it does not cover.
func extendList(live, want []any, rule listRule) any {
	out := slices.Clone(live)
	for _, item := range want {
		if !slices.ContainsFunc(live, func(have any) bool { return covers(have, item, rule) }) {
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
	out := slices.Clone(live)
	for _, item := range want {
		if !slices.ContainsFunc(out, func(have any) bool { return sameScalar(have, item) }) {
			out = append(out, plain(item))
		}
	}
	return out
}

// mergeByKey merges items with the same key, in the order of live. New items are appended. The key need not be unique:
// TCP and UDP services may use the same port. Items that match completely are paired first.
func mergeByKey(live, want []any, rule listRule) any {
	out, taken := slices.Clone(live), make([]bool, len(live))
	var rest []any
	find := func(item any, accept func(have any) bool) int {
		return slices.IndexFunc(indexes(live), func(i int) bool {
			return !taken[i] && sameScalar(keyOf(live[i], rule.key), keyOf(item, rule.key)) && accept(live[i])
		})
	}
	for _, item := range want {
		if i := find(item, func(have any) bool { return covers(have, item, rule) }); i >= 0 {
			taken[i] = true
			continue
		}
		rest = append(rest, item)
	}
	for _, item := range rest {
		i := find(item, func(any) bool { return true })
		if i < 0 {
			out = append(out, plain(item))
			continue
		}
		taken[i] = true
		out[i] = merge(live[i], item, rule.items, rule.strategy)
	}
	return out
}

func indexes(list []any) []int {
	out := make([]int, len(list))
	for i := range out {
		out[i] = i
	}
	return out
}

func keyOf(item any, key string) any {
	fields, _ := item.(map[string]any)
	return plain(fields[key])
}
