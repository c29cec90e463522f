package fairqueue

import (
	"slices"
	"testing"
)

func TestQueue_SharesByWorkspace(t *testing.T) {
	tests := map[string]struct {
		share  int
		pushed string
		// ready are the items that can be popped at once, order is that of all if each is done before the next is popped.
		ready, order string
	}{
		"no limit: the order stays":                             {0, "aaab", "aaab", "aaab"},
		"fewer items than the share: the order stays":           {2, "abab", "abab", "abab"},
		"more items than the share: other workspaces are first": {2, "aaaaabcab", "aabcb", "aabcbaaaa"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pushed := func() *Queue[int] {
				q := New(test.share, func(item int) string { return test.pushed[item : item+1] })
				for item := range test.pushed {
					q.Push(item)
				}
				if q.Size() != len(test.pushed) {
					t.Errorf("size %d, want %d", q.Size(), len(test.pushed))
				}
				return q
			}
			atOnce := pushed()
			var ready, order string
			for atOnce.Len() > 0 {
				item := atOnce.Pop()
				ready += test.pushed[item : item+1]
			}
			if ready != test.ready || atOnce.Size() != len(test.pushed)-len(ready) {
				t.Errorf("%q can be popped at once and %d are left, want %q", ready, atOnce.Size(), test.ready)
			}
			oneByOne := pushed()
			var items []int
			for oneByOne.Len() > 0 {
				item := oneByOne.Pop()
				order += test.pushed[item : item+1]
				items = append(items, item)
				oneByOne.Done(item)
			}
			if order != test.order {
				t.Errorf("order %q, want %q", order, test.order)
			}
			slices.Sort(items)
			if len(slices.Compact(items)) != len(test.pushed) || oneByOne.Size() != 0 {
				t.Errorf("popped %v, %d are left", items, oneByOne.Size())
			}
			if len(oneByOne.tenants)+len(oneByOne.working) > 0 {
				t.Errorf("%d workspaces and %d items are remembered", len(oneByOne.tenants), len(oneByOne.working))
			}
		})
	}
}
